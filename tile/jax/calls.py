"""`tile.jax.call`: run a kernel on arrays of JAX, which do not change, and return its outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np

from tile import backends
from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.jax.handlers import TARGET, register
from tile.jax.launches import LAUNCHES, Launch, Operand
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.arguments.jax_arrays import is_jax
from tile.runtime.autotuning.configs import KernelWrapper, innermost
from tile.runtime.grid import normalize_grid
from tile.runtime.jit import JITFunction
from tile.runtime.target_selection import DEFAULT, backend
from tile.short_repr import short_repr
from tile.tracebacks import public_function

BACKENDS = {"cpu": DEFAULT, "gpu": "nvptx"}  # by JAX's platform


@public_function
def call(
    *args: Any,
    kernel: Any,
    out_shape: Any,
    grid: Any,
    input_output_aliases: Mapping[int, int] | None = None,
    zeroed_outputs: Sequence[int | str] = (),
    **named: Any,
) -> Any:
    """Run a kernel on arrays of JAX, and return its outputs as new arrays.

    args: the kernel's first arguments: arrays, which the kernel gets as pointers, and numbers. What
        JAX traces is an array; a number is a constant of the program, as are all other values.
    kernel: a function of `tile.jit`, also below `tile.autotune` or `tile.heuristics`.
    out_shape: the outputs, as objects with `shape` and `dtype`. One, or a sequence of them, gives
        the kernel's arguments after `args`; a dictionary has them by parameter, in any place. The
        result has the same structure. An output that has the name of an array that is passed starts
        as a copy of it.
    grid: as in `kernel[grid]`.
    input_output_aliases: starts output `j` as a copy of array `i` among the arguments, for each
        `i: j`. The kernel gets both. XLA makes no copy of an array that is not used later.
    zeroed_outputs: the outputs, by position or name, that start as zeros. All others start
        undefined.
    named: further arguments by parameter, constants and launch options (`num_warps` and so on).

    In functions that JAX traces, the launch becomes part of XLA's program. Otherwise, for arrays on
    the CPU, the kernel runs at once. `jax.vmap` runs it for one element after the other. For
    gradients, pass the function that calls it to `jax.custom_vjp`.

    Raises `ArgumentError` for a kernel that writes an input, or does not write an output.
    """
    if not isinstance(kernel, JITFunction | KernelWrapper):
        raise ArgumentTypeError(
            f"tile.jax.call takes a kernel, made by tile.jit, not {short_repr(kernel)}"
        )
    grid = grid if callable(grid) else normalize_grid(grid)
    outputs = _Outputs(out_shape)
    bound = _Bound(kernel, outputs)
    bound.bind(args, named)
    bound.alias(input_output_aliases or {})
    bound.zero(zeroed_outputs)
    launch = Launch(kernel, bound.arguments, grid, dict(config.overrides))
    platform = _platform(bound.inputs)
    _compile(launch, bound, platform)
    if platform == "cpu" and all(map(_is_concrete, bound.inputs)):
        return outputs.structured(_run_now(launch, bound))
    return outputs.structured(_traced(launch, bound))


# -- the arguments


class _Outputs:
    """The outputs of a call: their names, if they have some, shapes and dtypes."""

    def __init__(self, out_shape: Any) -> None:
        self.names = list(out_shape) if isinstance(out_shape, Mapping) else None
        self._is_one = hasattr(out_shape, "shape")
        self._kind = type(out_shape)
        shapes = list(out_shape.values()) if isinstance(out_shape, Mapping) else out_shape
        shapes = [shapes] if self._is_one else shapes
        if not isinstance(shapes, Sequence) or isinstance(shapes, str) or not shapes:
            raise _no_shapes(out_shape)
        self.shapes = [_shape(one, out_shape) for one in shapes]

    def structured(self, results: list[Any]) -> Any:
        """Return the results as `out_shape` was."""
        if self.names is not None:
            return dict(zip(self.names, results, strict=True))
        if self._is_one:
            return results[0]
        return tuple(results) if issubclass(self._kind, tuple) else results


def _no_shapes(out_shape: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"out_shape is {short_repr(out_shape)}; it is an object with a shape and a dtype, such as "
        "jax.ShapeDtypeStruct(x.shape, x.dtype), or a list or dictionary of such"
    )


def _shape(one: Any, out_shape: Any) -> Any:
    if not (hasattr(one, "shape") and hasattr(one, "dtype")):
        raise _no_shapes(out_shape)
    dtype = np.dtype(one.dtype)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ArgumentTypeError(
            f"an output of {dtype} needs 64 bits, which JAX has after "
            'jax.config.update("jax_enable_x64", True)'
        )
    return jax.ShapeDtypeStruct(tuple(one.shape), dtype)


@dataclass
class _Start:
    """The contents with which an output starts: those of an input, or zeros."""

    input: int | None


class _Bound:
    """The arguments of a call, with operands in place of arrays."""

    def __init__(self, kernel: Any, outputs: _Outputs) -> None:
        self.kernel = kernel
        self.name = innermost(kernel).__name__
        self.outputs = outputs
        self.inputs: list[Any] = []  # arrays
        self.arguments: dict[str, Any] = {}
        self.starts: dict[int, _Start] = {}  # by output

    def bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Give the parameters of the kernel their arguments, and outputs that are not named."""
        names = self.kernel.arg_names
        unnamed = [] if self.outputs.names else self._operands()
        if len(args) + len(unnamed) > len(names):
            raise ArgumentTypeError(
                f"{self.name}() has {len(names)} parameters, and {len(args)} arguments with "
                f"{len(unnamed)} outputs were passed"
            )
        for name, value in [*zip(names, args, strict=False), *named.items()]:
            if name in self.arguments:
                raise ArgumentTypeError(
                    f"{self.name}() got {name!r} twice, by position and by name"
                )
            self.arguments[name] = jax.tree.map(self._leaf, value)
        for name, operand in zip(names[len(args) :], unnamed, strict=False):
            self._add_output(name, operand)
        if self.outputs.names:
            for name, operand in zip(self.outputs.names, self._operands(), strict=True):
                if name not in names:
                    raise ArgumentTypeError(f"{self.name}() has no parameter {name!r}")
                self._add_output(name, operand)

    def _operands(self) -> list[Operand]:
        return [
            Operand(number, one.dtype, one.shape, is_output=True)
            for number, one in enumerate(self.outputs.shapes)
        ]

    def _leaf(self, value: Any) -> Any:
        if not (is_jax(type(value)) or isinstance(value, np.ndarray)):
            return value
        array = jax.numpy.asarray(value)
        self.inputs.append(array)
        return Operand(len(self.inputs) - 1, np.dtype(array.dtype), tuple(array.shape))

    def _add_output(self, name: str, operand: Operand) -> None:
        """Make an argument an output, which starts as the array that was passed, if one was."""
        passed = self.arguments.get(name)
        if isinstance(passed, Operand):
            self._start(operand.index, passed.index)
        elif passed is not None:
            raise ArgumentTypeError(
                f"output {name!r} of {self.name}() was passed as {short_repr(passed)}, which is no "
                "array"
            )
        self.arguments[name] = operand

    def alias(self, aliases: Mapping[int, int]) -> None:
        """Start outputs as copies of inputs."""
        for source, target in aliases.items():
            if not 0 <= source < len(self.inputs):
                raise ArgumentValueError(
                    f"input_output_aliases names array {source}, and {len(self.inputs)} are passed"
                )
            self._start(self._position(target, "input_output_aliases"), source)

    def zero(self, zeroed: Sequence[int | str]) -> None:
        """Start outputs as zeros."""
        for one in [zeroed] if isinstance(zeroed, str) else zeroed:
            self._start(self._position(one, "zeroed_outputs"), None)

    def _start(self, output: int, source: int | None) -> None:
        if output in self.starts:
            raise ArgumentValueError(f"output {output} of {self.name}() would start as two arrays")
        if source is not None:
            array, shape = self.inputs[source], self.outputs.shapes[output]
            if (array.shape, array.dtype) != (shape.shape, shape.dtype):
                raise ArgumentValueError(
                    f"output {output} of {self.name}() is {_text(shape)}, and the array that it "
                    f"starts as is {_text(array)}"
                )
        self.starts[output] = _Start(source)

    def _position(self, output: int | str, option: str) -> int:
        names = self.outputs.names or []
        position = names.index(output) if output in names else output
        if not isinstance(position, int) or not 0 <= position < len(self.outputs.shapes):
            every = f"{', '.join(names)}" if names else f"0 to {len(self.outputs.shapes) - 1}"
            raise ArgumentValueError(f"{option} names output {output!r}; there are {every}")
        return position


def _text(array: Any) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


# -- running


def _is_concrete(array: Any) -> bool:
    return not isinstance(array, jax.core.Tracer)


def _platform(inputs: Sequence[Any]) -> str:
    """Return JAX's platform for arrays that have one, or the one that it prefers."""
    for array in filter(_is_concrete, inputs):
        return str(next(iter(array.devices())).platform)
    device = jax.config.jax_default_device
    return str(getattr(device, "platform", device) or jax.default_backend())


def _compile(launch: Launch, bound: _Bound, platform: str) -> None:
    """Compile the kernel for arrays without data, and check what it writes."""
    if platform not in BACKENDS:
        raise ArgumentValueError(
            f"JAX runs on a {platform}; kernels run on CPUs and NVIDIA GPUs (JAX_PLATFORMS=cpu)"
        )
    samples = jax.tree.map(
        lambda leaf: MockArray(leaf.dtype, leaf.shape) if isinstance(leaf, Operand) else leaf,
        dict(launch.arguments),
    )
    chosen = config.backend or BACKENDS[platform]
    backends.require(chosen.partition(":")[0])
    with backend(chosen):
        written = bound.kernel.written_arguments(**samples)
    for name, tree in launch.arguments.items():
        operands = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, Operand)]
        if name in written and not all(one.is_output for one in operands):
            raise ArgumentValueError(
                f"{bound.name}() writes {name!r}, which is an input, and arrays of JAX are "
                "immutable",
                notes=[f"make it an output, which starts as a copy: out_shape={{{name!r}: x}}"],
            )
        if name not in written and any(one.is_output for one in operands):
            raise ArgumentValueError(
                f"{bound.name}() does not write {name!r}, which is an output; outputs come after "
                "the positional arguments, or by name in a dictionary"
            )


def _run_now(launch: Launch, bound: _Bound) -> list[Any]:
    """Run a launch on the CPU, where errors have the kernel's lines and debuggers work."""
    inputs = [np.asarray(array) for array in bound.inputs]
    outputs = []
    for number, shape in enumerate(bound.outputs.shapes):
        start = bound.starts.get(number)
        if start is None or start.input is None:
            make: Callable[..., Any] = np.empty if start is None else np.zeros
            outputs.append(make(shape.shape, shape.dtype))
        else:
            outputs.append(np.array(inputs[start.input]))
            inputs[start.input] = _read_only(outputs[-1])  # as in a compiled program
    launch.run(inputs, outputs)
    device = next((next(iter(array.devices())) for array in bound.inputs), None)
    return [jax.device_put(output, device) for output in outputs]


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def _traced(launch: Launch, bound: _Bound) -> list[Any]:
    """Add a launch to the program that JAX traces."""
    register()
    inputs = list(bound.inputs)
    aliases = {}
    for output, start in bound.starts.items():
        source = start.input
        if source is None or source in aliases:
            shape = bound.outputs.shapes[output]
            zeros = jax.numpy.zeros(shape.shape, shape.dtype)
            inputs.append(zeros if source is None else inputs[source])
            source = len(inputs) - 1
        aliases[source] = output
    run = jax.ffi.ffi_call(
        TARGET,
        bound.outputs.shapes,
        vmap_method="sequential",
        input_output_aliases=aliases,
    )
    name = LAUNCHES.add(launch)
    launched = jax.custom_jvp(lambda *arrays: run(*arrays, launch=name))
    launched.defjvp(functools.partial(_no_gradient, bound.name))
    return list(launched(*inputs))


def _no_gradient(name: str, arrays: Any, tangents: Any) -> NoReturn:
    raise ArgumentValueError(
        f"JAX cannot differentiate {name}(); pass the function that calls it to jax.custom_vjp, "
        "with a function for the gradient, or its arguments to jax.lax.stop_gradient"
    )
