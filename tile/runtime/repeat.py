"""The fast path of launches that differ from an earlier one only in addresses and numbers.

For each shape of calls of a kernel (the types of arguments, and the names of those passed by name),
Python source of a launch function is generated and compiled. It does only what such a call needs:
compute the key that selects a compiled kernel, look it up in one dictionary, and call the backend's
fast launch (`Repeatable.bind`). For `add[grid](x, y, out, n, BLOCK=1024)` with torch's tensors the
function is

    def launch(grid, a0=absent, a1=absent, a2=absent, a3=absent, /, *rest, BLOCK=absent, **more):
        if type(a0) is t0 and ... and not rest and not more and cache and alive and ...:
            try:
                p0 = a0.data_ptr()
                ...
                entry = table.get((backend() if own(None) is None else scoped(), checks(),
                                   a0.dtype, a0.get_device(), ..., BLOCK, <alignment>))
            except unreadable:
                entry = None
            if entry is not None:
                repeat, kernel, constants = entry
                <the grid's extents x, y, z>
                if repeat(x, y, z, p0, p1, p2, a3):
                    return kernel
        if a0 is not absent and ... and BLOCK is not absent:
            return slow_path(shape, grid, a0, a1, a2, a3, *rest, BLOCK=BLOCK, **more)
        args, named = merge((a0, a1, a2, a3), rest, {'BLOCK': BLOCK}, more)
        return slow_path(shape, grid, *args, **named)

`add[grid]` calls this function directly, without packing arguments: `*rest`, `**more` and the
defaults exist only so that it accepts any call. It leaves everything else to `slow_path`: the first
launch with a key, arguments of other types, hooks, errors, and launches with launch callbacks or
inside `with tile.sanitize(...)`. The whole body is in a `try` that trims the tracebacks of errors
(`tile.tracebacks`). Keys may be finer than those of compiled kernels, but never coarser. The launch
of an entry has passed all checks of an ordinary launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tile.backends.base import Repeat
from tile.config import Config, Origin, config
from tile.frontend.source import Parameter
from tile.ir.types import Pointer, Scalar
from tile.runtime.grid import normalise_grid
from tile.runtime.kernel import LAUNCH_CALLBACKS, CompiledKernel
from tile.runtime.repeat_text import Writer
from tile.runtime.signature import DIVISOR
from tile.runtime.torch_arrays import is_plain_tensor, only_cuda_numbered
from tile.tracebacks import GENERATED, trim

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Shape = tuple[Any, ...]
SlowPath = Callable[..., CompiledKernel]

ABSENT = object()  # the default of all arguments

# Exceptions of reading arguments that differ from those for which the plan was built.
UNREADABLE = (AttributeError, RuntimeError, TypeError, ValueError)


class Entry(NamedTuple):
    """The fast launch for one key; `constants` are the constants and options, by name."""

    repeat: Repeat
    kernel: CompiledKernel
    constants: dict[str, Any]


class Plan(NamedTuple):
    """The generated functions for calls of one shape.

    table: the entries by key.
    alive: cleared to invalidate the plan. A caller may have stored `launch`, which then leaves all
        calls to the slow path.
    key: the key of arguments, or None if they have none, such as tensors without plain memory.
    launch: `launch(grid, *args, **kwargs)` launches.
    parameters: the indices of the kernel's parameters whose values are passed to the backend.
    passed: the names of the parameters that calls pass.
    """

    table: dict[Any, Entry | None]
    alive: list[bool]
    key: Callable[..., Any]
    launch: Callable[..., CompiledKernel]
    parameters: tuple[int, ...]
    passed: frozenset[str]


def shape_of(args: Arguments, kwargs: Options) -> Shape:
    """Return the types of a call's arguments, and the names of those passed by name."""
    return (*map(type, args), *kwargs, *map(type, kwargs.values()))


def make_plan(
    args: Arguments,
    kwargs: Options,
    parameters: Sequence[Parameter],
    annotated: Sequence[Scalar | Pointer | None],
    *,
    hooks: list[Any],
    cache: dict[Any, Any],
    current: Callable[[], bool] | None,
    slow_path: SlowPath,
) -> Plan | None:
    """Return a plan for calls of this shape, or None if it does not support their arguments.

    annotated: the annotated types of the parameters.
    current: returns True if the captured variables are unchanged; None if there are none.
    slow_path: launches calls that the plan does not support. It takes the plan's shape, a grid, and
        the arguments of a call.
    """
    writer = Writer(len(args), tuple(kwargs), numbered=only_cuda_numbered())
    words: dict[str, tuple[str, Any]] = {name: (name, value) for name, value in kwargs.items()}
    words |= {
        p.name: (word, value)
        for word, p, value in zip(writer.positional, parameters, args, strict=False)
    }
    names: dict[str, Any] = {f"t{at}": type(v) for at, v in enumerate((*args, *kwargs.values()))}
    for index, parameter in enumerate(parameters):
        word, value = words.pop(parameter.name, ("", parameter.default))
        if word:
            writer.passed[parameter.name] = word
        else:
            names[f"d{index}"] = value
        if parameter.is_constexpr:
            supported = not word or writer.constant(word, type(value))
        else:
            supported = writer.runtime(word or f"~d{index}", value, index, annotated[index])
        if not supported:
            return None
    if not all(writer.constant(word, type(value)) for word, value in words.values()):
        return None
    table: dict[Any, Entry | None] = {}
    alive = [True]
    names |= {"table": table, "alive": alive, "hooks": hooks, "cache": cache, "current": current}
    names |= {"slow_path": slow_path, "shape": shape_of(args, kwargs), "absent": ABSENT}
    names |= {"merge": _merge_arguments, "callbacks": LAUNCH_CALLBACKS}
    names |= {"scoped": _scoped, "own": config.own.get}
    variables = Config.variables()
    names |= {"backend": variables["backend"].text_reader()}
    names |= {"checks": variables["sanitize"].text_reader()}
    names |= {"unreadable": UNREADABLE, "trim": trim}
    names |= {"grid_extents": normalise_grid, "wide": _wide, "plain": is_plain_tensor}
    key, launch = _compile_functions(writer, names, watching=current is not None)
    return Plan(table, alive, key, launch, tuple(writer.parameters), frozenset(writer.passed))


class _CheckedError(RuntimeError):
    """Checks of a `with` block are active, which only an ordinary launch supports."""


def _scoped() -> tuple[str]:
    """Return the part of a key for the settings of a `with` block."""
    if config.origin("sanitize") is Origin.SCOPE:
        raise _CheckedError
    return (config.backend,)


def _compile_functions(
    writer: Writer, names: Mapping[str, Any], *, watching: bool
) -> tuple[Callable[..., Any], Callable[..., CompiledKernel]]:
    """Compile the generated source, and return the functions `key` and `launch`."""
    prefix = writer.prefix
    space = {prefix + name: value for name, value in names.items()}
    exec(compile(writer.text(watching=watching), GENERATED, "exec"), space)
    return space[f"{prefix}key"], space[f"{prefix}launch"]


def _merge_arguments(
    args: Arguments, rest: Arguments, named: Options, more: Options
) -> tuple[Arguments, Options]:
    """Return a call's arguments from those of the generated function."""
    named = {name: value for name, value in named.items() if value is not ABSENT}
    return (*(value for value in args if value is not ABSENT), *rest), {**named, **more}


def _wide(value: int) -> tuple[bool, bool]:
    """Return the part of a key for integers that do not fit 32 bits."""
    return value % DIVISOR == 0, value <= 0x7FFF_FFFF_FFFF_FFFF
