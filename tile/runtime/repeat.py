"""Repeat launches: what a launch does that differs from an earlier one in addresses and numbers.

For each way in which a kernel is called (types of the arguments, which of them are given by name)
a function is made, in Python's own text, that does all of a launch that such calls need: a key from
what selects a compiled kernel, one dictionary look-up, and the backend's way to repeat a launch
(`Repeatable.bind`). For `add[grid](x, y, out, n, BLOCK=1024)` with torch's tensors it is

    def again(grid, a0=absent, a1=absent, a2=absent, a3=absent, /, *rest, BLOCK=absent, **more):
        if type(a0) is t0 and ... and not rest and not more and cache and alive and ...:
            try:
                p0 = a0.data_ptr()
                ...
                entry = table.get((backend() if own(None) is None else scoped(), checks(),
                                   a0.dtype, a0.get_device(), ..., BLOCK, <alignment>))
            except unreadable:
                entry = None
            if entry is not None:
                repeat, kernel, known = entry
                <the grid's extents x, y, z>
                if repeat(x, y, z, p0, p1, p2, a3):
                    return kernel
        if a0 is not absent and ... and BLOCK is not absent:
            return unlike(shape, grid, a0, a1, a2, a3, *rest, BLOCK=BLOCK, **more)
        args, named = all((a0, a1, a2, a3), rest, {'BLOCK': BLOCK}, more)
        return unlike(shape, grid, *args, **named)

It is what `add[grid]` calls, with no packing of arguments in between: `*rest`, `**more` and the
defaults are there only so that any call comes in. Whatever it does not know, it hands over to
`unlike`: the first launch with a key, arguments of other types, hooks, errors, and all that is
launched while somebody watches or inside `with tile.sanitize(...)`. All of it is in a `try` that
trims the tracebacks of errors (`tile.tracebacks`). Keys may tell apart more than compiled kernels
do, never less. What an entry holds has passed all checks of an ordinary launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tile.backends.base import Repeat
from tile.config import Config, Origin, config
from tile.frontend.source import Parameter
from tile.ir.types import Pointer, Scalar
from tile.runtime.grid import normalise_grid
from tile.runtime.kernel import WATCHERS, CompiledKernel
from tile.runtime.repeat_text import Writer
from tile.runtime.signature import DIVISOR
from tile.runtime.torch_arrays import is_plain_tensor, only_cuda_numbered
from tile.tracebacks import GENERATED, trim

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Shape = tuple[Any, ...]
Unlike = Callable[..., CompiledKernel]

ABSENT = object()  # in the place of arguments that a call does not give

# What reading arguments raises that are not like those that the plan was made for.
UNREADABLE = (AttributeError, RuntimeError, TypeError, ValueError)


class Entry(NamedTuple):
    """How launches with one key are done; `known` are the constants and options, by name."""

    repeat: Repeat
    kernel: CompiledKernel
    known: dict[str, Any]


class Plan(NamedTuple):
    """What was made for calls of one shape. `again(grid, *args, **kwargs)` launches.

    `key` of such arguments is None for those that cannot be looked up, such as tensors without
    plain memory. `parameters` says, by position among the kernel's, whose values go to the backend,
    in order, and `given` has the names of those that calls give. Who drops a plan empties `alive`:
    somebody may still hold `again`, which then leaves all to the ordinary launch.
    """

    table: dict[Any, Entry | None]
    alive: list[bool]
    key: Callable[..., Any]
    again: Callable[..., CompiledKernel]
    parameters: tuple[int, ...]
    given: frozenset[str]


def shape_of(args: Arguments, kwargs: Options) -> Shape:
    """The types of a call's arguments, and the names of those that are given by name."""
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
    unlike: Unlike,
) -> Plan | None:
    """A plan for calls like this one, or None where they have arguments that it does not know.

    `annotated` has the types of parameters that are annotated with one. `current` says whether
    what was compiled is still what the kernel's text means; None: always. `unlike` takes over what
    the plan does not do: the shape of calls that it is for, a grid, and the arguments of a call.
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
            writer.given[parameter.name] = word
        else:
            names[f"d{index}"] = value
        if parameter.is_constexpr:
            known = not word or writer.constant(word, type(value))
        else:
            known = writer.runtime(word or f"~d{index}", value, index, annotated[index])
        if not known:
            return None
    if not all(writer.constant(word, type(value)) for word, value in words.values()):
        return None
    table: dict[Any, Entry | None] = {}
    alive = [True]
    names |= {"table": table, "alive": alive, "hooks": hooks, "cache": cache, "current": current}
    names |= {"unlike": unlike, "shape": shape_of(args, kwargs), "absent": ABSENT, "all": _all}
    names |= {"scoped": _scoped, "own": config.own.get, "watchers": WATCHERS}
    variables = Config.variables()
    names |= {"backend": variables["backend"].text_reader()}
    names |= {"checks": variables["sanitize"].text_reader()}
    names |= {"unreadable": UNREADABLE, "trim": trim}
    names |= {"normalise_grid": normalise_grid, "wide": _wide, "plain": is_plain_tensor}
    key, again = _made(writer, names, watching=current is not None)
    return Plan(table, alive, key, again, tuple(writer.parameters), frozenset(writer.given))


class _CheckedError(RuntimeError):
    """Checks are asked for, which an ordinary launch looks at."""


def _scoped() -> tuple[str]:
    """Return the part of a key for settings of a `with` block."""
    if config.origin("sanitize") is Origin.SCOPE:
        raise _CheckedError
    return (config.backend,)


def _made(
    writer: Writer, names: Mapping[str, Any], *, watching: bool
) -> tuple[Callable[..., Any], Callable[..., CompiledKernel]]:
    """The functions `key` and `again`."""
    prefix = writer.prefix
    space = {prefix + name: value for name, value in names.items()}
    exec(compile(writer.text(watching=watching), GENERATED, "exec"), space)
    return space[f"{prefix}key"], space[f"{prefix}again"]


def _all(
    args: Arguments, rest: Arguments, named: Options, more: Options
) -> tuple[Arguments, Options]:
    """A call's arguments from what `again` was given."""
    named = {name: value for name, value in named.items() if value is not ABSENT}
    return (*(value for value in args if value is not ABSENT), *rest), {**named, **more}


def _wide(value: int) -> tuple[bool, bool]:
    """What tells integers apart that 32 bits do not hold."""
    return value % DIVISOR == 0, value <= 0x7FFF_FFFF_FFFF_FFFF
