"""Launches of kernels as operators of PyTorch, so that a compiled graph can contain them.

The launch `add[(k,)](x, y, out, n, BLOCK=32)` becomes the operator

    tile::add_5f2c...(Tensor a0, Tensor a1, Tensor(a!) a2, SymInt a3, SymInt g0, ...) -> ()

whose schema says what the kernel writes, as its IR does. PyTorch functionalizes, orders and removes
calls of it by this schema. Constants (`BLOCK`, options) belong to the operator. Its name has a hash
of the kernel's source and of the constants: a graph that PyTorch has stored on disk names the same
kernel in another process.

Schemas are flat. PyTorch's dispatcher calls a Python function for an operator in about 4 us if each
tensor and number is an argument of its own. With lists it takes 13 us, and
`torch.library.custom_op` takes 40 us (torch 2.11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.library import fallthrough_kernel

from tile.errors import ArgumentValueError
from tile.frontend.python.fingerprint import exact_digest
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import Config, KernelWrapper, innermost
from tile.runtime.autotuning.heuristics import Heuristics
from tile.runtime.specialize import Constant
from tile.runtime.target_selection import BACKEND_OF_DEVICE, DEFAULT, backend
from tile.tracebacks import GENERATED

NAMESPACE = "tile"
LAUNCHES = torch.library.Library(NAMESPACE, "FRAGMENT")
"""The operators of launches, which live as long as the process."""

# The kernels address elements by the strides that the program has passed, so TorchInductor must not
# choose other layouts for the arguments.
TAGS = (torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)


def define(
    library: torch.library.Library,
    schema: str,
    implementation: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    tags: Sequence[Any] = TAGS,
) -> Any:
    """Define an operator, and return its overload.

    schema: the operator's name, arguments and results in PyTorch's syntax, without a namespace:
        `"add(Tensor x, Tensor(a!) out, SymInt n) -> ()"`.
    implementation: computes it, for tensors on any device.
    fake: returns tensors of the right shapes for tensors without memory.
    """
    name = schema.partition("(")[0]
    library.define(schema, tags=tuple(tags))
    library.impl(name, implementation, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::{name}", fake, lib=library)
    return getattr(getattr(torch.ops, library.ns), name).default


AXES = 3  # of a grid
EXTENT = 16  # stands for an integer that is not known while PyTorch traces
DIGITS = 16  # of the hash in an operator's name


@dataclass(frozen=True)
class Operand:
    """A runtime argument of a launch: the argument of the operator with this index.

    kind: its type in schemas: "Tensor", "SymInt", "float" or "bool".
    sample: what the kernel is compiled for in order to see what it writes: a number, or an array
        that stands for tensors of this dtype.
    device: the kind of device of a tensor.
    """

    index: int
    kind: str
    sample: Any
    device: str = ""


@dataclass(frozen=True)
class Group:
    """An argument made of others: a tuple, or a tensor descriptor.

    make: returns it from a list of the others' values.
    text: names the class of what it returns, for hashes.
    """

    make: Callable[[list[Any]], Any]
    parts: tuple[Argument, ...]
    text: str


Argument = Operand | Constant | Group


def descriptor(parts: list[Any]) -> TensorDescriptor:
    """Return a tensor descriptor from its fields."""
    return TensorDescriptor(*parts)


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that PyTorch traces: the kernel, and its arguments and options by name.

    configs: the configurations of an autotuner, each of which has a grid of its own.
    """

    kernel: Any
    arguments: Mapping[str, Argument]
    configs: tuple[Config, ...] = ()

    @property
    def operands(self) -> list[Operand]:
        """The runtime arguments, each once, by index."""
        by_index = {o.index: o for a in self.arguments.values() for o in operands_of(a)}
        return [by_index[index] for index in sorted(by_index)]

    def written(self) -> frozenset[str]:
        """Return the names of the arguments that the kernel writes, which is compiled for that.

        A hook that sees the arguments of a launch may write them all. Raises `TileError` for a
        kernel that cannot be compiled.
        """
        if has_hooks(self.kernel):
            return frozenset(self.arguments)
        samples = {name: sample_of(argument) for name, argument in self.arguments.items()}
        with backend(self._backend()):
            return frozenset(self.kernel.written_arguments(**samples)) | restored(self.kernel)

    def _backend(self) -> str:
        """Return the backend for the devices of the tensors."""
        kinds = (BACKEND_OF_DEVICE.get(operand.device) for operand in self.operands)
        return next(filter(None, kinds), DEFAULT)

    def schema(self, name: str, written: frozenset[str]) -> str:
        """Return the schema of the launch's operator."""
        changed = {
            operand.index
            for parameter, argument in self.arguments.items()
            for operand in operands_of(argument)
            if parameter in written and operand.kind == "Tensor"
        }
        words = [
            f"Tensor(a{o.index}!) a{o.index}" if o.index in changed else f"{o.kind} a{o.index}"
            for o in self.operands
        ]
        words += [f"SymInt g{axis}" for axis in range(AXES * max(1, len(self.configs)))]
        return f"{name}({', '.join(words)}) -> ()"

    def name(self, written: frozenset[str]) -> str:
        """Return the name of the launch's operator; equal launches have equal names."""
        function = innermost(self.kernel)
        layout = [(name, *spelled(argument)) for name, argument in sorted(self.arguments.items())]
        text = (sorted(written), layout, list(map(str, self.configs)))
        digest = exact_digest(function, text) or f"{id(self.kernel):x}"
        return f"{function.__name__}_{hashlib.sha256(digest.encode()).hexdigest()[:DIGITS]}"


def operands_of(argument: Argument) -> Iterator[Operand]:
    """Yield the runtime arguments in an argument."""
    if isinstance(argument, Operand):
        yield argument
    elif isinstance(argument, Group):
        for part in argument.parts:
            yield from operands_of(part)


def sample_of(argument: Argument) -> Any:
    """Return a value that stands for an argument in a compilation."""
    match argument:
        case Constant(value):
            return value
        case Operand():
            return argument.sample
        case Group(make, parts):
            return make([sample_of(part) for part in parts])


def spelled(argument: Argument) -> tuple[Any, ...]:
    """Return an argument as nested tuples of plain values, for hashes."""
    match argument:
        case Constant(value):
            return ("constant", value)
        case Operand():
            return (argument.kind, argument.index)
        case Group(_, parts):
            return (argument.text, *map(spelled, parts))


def wrappers(kernel: Any) -> Iterator[Any]:
    """Yield the tuners and heuristics around a jitted function, outermost first."""
    while isinstance(kernel, KernelWrapper):
        yield kernel
        kernel = kernel.fn


def has_hooks(kernel: Any) -> bool:
    """Return True if functions of the user see the arguments of each launch."""
    return bool(innermost(kernel).pre_run_hooks) or any(
        tuner.user_defined_pre_hook
        or tuner.user_defined_post_hook
        or any(config.pre_hook is not None for config in tuner.configs)
        for tuner in wrappers(kernel)
        if isinstance(tuner, Autotuner)
    )


def restored(kernel: Any) -> frozenset[str]:
    """Return the arguments that a tuner is asked to reset or to restore."""
    return frozenset(
        name
        for tuner in wrappers(kernel)
        if isinstance(tuner, Autotuner)
        for name in (*tuner.reset_to_zero, *tuner.restore_value)
    )


def rules(kernel: Any) -> dict[str, Any]:
    """Return the rules of all heuristics around a jitted function, by parameter."""
    every = [wrapper for wrapper in wrappers(kernel) if isinstance(wrapper, Heuristics)]
    return {name: rule for wrapper in every for name, rule in wrapper.values.items()}


# -- operators


class _Registry:
    """The operators of launches by name, each with its kernel."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[Any, Any]] = {}

    def operator(self, launch: TracedLaunch, written: frozenset[str]) -> Any:
        """Return the operator of a launch; define it if there is none."""
        name = launch.name(written)
        # A kernel of equal text may have another state, such as the results of its autotuner.
        while name in self._entries and self._entries[name][0] is not launch.kernel:
            name += "_"
        if name not in self._entries:
            schema = launch.schema(name, written)
            made = define(LAUNCHES, schema, implementation(launch, written), _no_result)
            # Autograd does not see the operator, as it does not see an eager launch.
            LAUNCHES.impl(name, fallthrough_kernel, "Autograd")
            self._entries[name] = launch.kernel, made
        return self._entries[name][1]


OPERATORS = _Registry()


def _no_result(*operands: Any) -> None:
    """Return nothing, for tensors without memory, on which kernels do not run."""


def implementation(launch: TracedLaunch, written: frozenset[str]) -> Callable[..., None]:
    """Return the function that launches the kernel with the operator's arguments.

    It is generated: `lambda a0, a1, g0, g1, g2: check(kernel[g0, g1, g2](x=a0, n=a1, BLOCK=c0))`.
    """
    space: dict[str, Any] = {"kernel": launch.kernel}
    named = [f"{n}={_expression(a, space)}" for n, a in launch.arguments.items()]
    extents = [f"g{axis}" for axis in range(AXES * max(1, len(launch.configs)))]
    grid = f"({', '.join(extents)})"
    if launch.configs:
        space["grid_of"] = _GridOf(launch.configs)
        grid = f"grid_of({', '.join(extents)})"
    space["check"] = _Check(launch.kernel, written)
    operands = [f"a{operand.index}" for operand in launch.operands]
    text = f"lambda {', '.join([*operands, *extents])}: check(kernel[{grid}]({', '.join(named)}))"
    function: Callable[..., None] = eval(compile(text, GENERATED, "eval"), space)
    return function


def _expression(argument: Argument, space: dict[str, Any]) -> str:
    """Return the source of an argument's value; add the objects that it names to `space`."""
    if isinstance(argument, Operand):
        return f"a{argument.index}"
    name = f"c{len(space)}"
    if isinstance(argument, Constant):
        space[name] = argument.value
        return name
    space[name] = argument.make
    return f"{name}([{', '.join(_expression(part, space) for part in argument.parts)}])"


@dataclass(frozen=True)
class _GridOf:
    """Returns the grid function of a launch from the grids of all configurations."""

    configs: tuple[Config, ...]

    def __call__(self, *extents: int) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
        def grid(meta: Mapping[str, Any]) -> tuple[int, ...]:
            for number, config in enumerate(self.configs):
                if all(meta.get(name) == value for name, value in config.all_kwargs().items()):
                    return extents[AXES * number : AXES * (number + 1)]
            raise ArgumentValueError(
                f"a hook has changed the configurations from {', '.join(map(str, self.configs))}"
            )

        return grid


class _Check:
    """Checks that a launched kernel writes only what its operator's schema says.

    Another version of the kernel, for other numbers or after a global has changed, may write more.
    """

    def __init__(self, kernel: Any, written: frozenset[str]) -> None:
        self.name = innermost(kernel).__name__
        self.written = written
        self.latest: Any = None

    def __call__(self, launched: Any) -> None:
        if launched is self.latest or launched is None:
            return
        more = launched.written - self.written
        if more:
            raise ArgumentValueError(
                f"{self.name}() writes {', '.join(sorted(more))} for these arguments, which the "
                "kernel that torch.compile has seen does not",
                notes=["call torch.compiler.reset() after a change of a global of the kernel"],
            )
        self.latest = launched
