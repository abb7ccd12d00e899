"""Repeat launches: what a launch does that differs from an earlier one in addresses and numbers.

For each way in which a kernel is called (types of the arguments, which of them are given by name)
a function is made, in Python's own text, that does all of a launch that such calls need: a key from
what selects a compiled kernel, one dictionary look-up, and the backend's way to repeat a launch
(`Repeatable.bind`). For `add[grid](x, y, out, n, BLOCK=1024)` with torch's tensors it is

    def again(grid, args, kwargs):
        if watchers or hooks or not cache:
            return None
        a0, a1, a2, a3 = args
        (k0,) = kwargs.values()
        try:
            p0 = a0.data_ptr()
            ...
            entry = table.get((config.backend, <alignment>, a0.dtype, a0.device, ..., k0))
        except (RuntimeError, TypeError):
            return None
        ...

Whatever it does not know, it leaves to the ordinary launch by returning None: the first launch with
a key, arguments of other types, hooks, errors, and all that is launched while somebody watches.
Keys may tell apart more than compiled kernels do, never less. What an entry holds has passed all
checks of an ordinary launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tile.backends.base import Repeat
from tile.config import config
from tile.frontend.source import Parameter
from tile.language.constexpr import constexpr
from tile.runtime.descriptor import TensorDescriptor
from tile.runtime.grid import normalise_grid
from tile.runtime.kernel import WATCHERS, CompiledKernel
from tile.runtime.signature import DIVISOR
from tile.runtime.torch_arrays import is_plain_tensor

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Shape = tuple[Any, ...]


class Entry(NamedTuple):
    """How launches with one key are done; `known` are the constants and options, by name."""

    repeat: Repeat
    kernel: CompiledKernel
    known: dict[str, Any]


class Plan(NamedTuple):
    """What was made for calls of one shape. `again` launches if it can; else it returns None.

    `key` is None for arguments that cannot be looked up, such as tensors without plain memory.
    `parameters` says, by position among the kernel's, whose values go to the backend, in order, and
    `given` has the names of those that calls give.
    """

    table: dict[Any, Entry | None]
    key: Callable[[Arguments, Options], Any]
    again: Callable[[Any, Arguments, Options], CompiledKernel | None]
    parameters: tuple[int, ...]
    given: frozenset[str]


def shape_of(args: Arguments, kwargs: Options) -> Shape:
    """The types of a call's arguments, and the names of those that are given by name."""
    return (*map(type, args), *kwargs, *map(type, kwargs.values()))


def make_plan(
    args: Arguments,
    kwargs: Options,
    parameters: Sequence[Parameter],
    *,
    hooks: list[Any],
    cache: dict[Any, Any],
    current: Callable[[], bool] | None,
) -> Plan | None:
    """A plan for calls like this one, or None where they have arguments that it does not know.

    `current` says whether what was compiled is still what the kernel's text means; None: always.
    """
    writer = _Writer(len(args), tuple(kwargs))
    words: dict[str, tuple[str, Any]] = {
        name: (f"k{at}", value) for at, (name, value) in enumerate(kwargs.items())
    }
    words |= {
        p.name: (f"a{at}", value)
        for at, (p, value) in enumerate(zip(parameters, args, strict=False))
    }
    names: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        word, value = words.pop(parameter.name, ("", parameter.default))
        if word:
            writer.given[parameter.name] = word
        else:
            word = f"d{index}"
            names[word] = value
        if not parameter.is_constexpr:
            known = writer.runtime(word, type(value), index)
        else:
            known = word in names or writer.constant(word, type(value))
        if not known:
            return None
    if not all(writer.constant(word, type(value)) for word, value in words.values()):
        return None
    table: dict[Any, Entry | None] = {}
    names |= {"table": table, "hooks": hooks, "cache": cache, "current": current, "config": config}
    names["watchers"] = WATCHERS
    names |= {"normalise_grid": normalise_grid, "wide": _wide, "plain": is_plain_tensor}
    text = writer.text(watching=current is not None)
    exec(compile(text, "<a repeat launch>", "exec"), names)
    given = frozenset(writer.given)
    return Plan(table, names["key"], names["again"], tuple(writer.parameters), given)


def _wide(value: int) -> tuple[bool, bool]:
    """What tells integers apart that 32 bits do not hold."""
    return value % DIVISOR == 0, value <= 0x7FFF_FFFF_FFFF_FFFF


class _Writer:
    """Writes the functions of a plan, in which `a0` is a positional argument and `k0` a named one.

    `runtime` and `constant` take an argument by its name there, and say whether they know its type.
    """

    def __init__(self, positional: int, keywords: Sequence[str]) -> None:
        self._positional = positional
        self._keywords = len(keywords)
        self.given: dict[str, str] = {}  # by the parameter's name, the argument's
        self.parameters: list[int] = []
        self._values: list[str] = []
        self._addresses: list[str] = []
        self._reads: list[str] = []
        self._parts: list[str] = []

    def runtime(self, word: str, kind: type, index: int) -> bool:
        if kind is type(None):
            return True
        self.parameters.append(index)
        if kind is TensorDescriptor:
            self._descriptor(word)
            return True
        if kind is int:
            self._parts.append(
                f"({word} == 1 or {word} % {DIVISOR} == 0 and {DIVISOR}) "
                f"if -0x80000000 <= {word} <= 0x7FFFFFFF else wide({word})"
            )
        elif is_plain_tensor(kind):
            address = f"p{len(self._addresses)}"
            self._reads.append(f"{address} = {word}.data_ptr()")
            self._addresses.append(address)
            self._parts += [f"{word}.dtype", f"{word}.device"]
            word = address
        elif kind not in (float, bool):
            return False
        self._values.append(word)
        return True

    def _descriptor(self, word: str) -> None:
        """Another base may be given; all else of a descriptor, which was checked, is in the key."""
        base, address, sizes = (f"{letter}{len(self._addresses)}" for letter in "bpn")
        self._reads += [
            f"{base} = {word}.base",
            f"if not plain(type({base})): return None",
            f"{address} = {base}.data_ptr()",
            f"{sizes} = (*{word}.shape, *{word}.strides)",
        ]
        self._addresses.append(address)
        self._parts += [f"{base}.dtype", f"{base}.device", f"{base}.shape", f"{base}.stride()"]
        self._parts += [sizes, f"(*{word}.block_shape,)", f"{word}.padding"]
        self._values += [address, f"*{sizes}"]

    def constant(self, word: str, kind: type) -> bool:
        if kind is float:
            self._parts.append(f"{word}.hex()")  # which tells -0.0 from 0.0, and knows each NaN
            return True
        self._parts.append(word)
        return not issubclass(kind, float | tuple | np.generic | constexpr)

    def text(self, *, watching: bool) -> str:
        guard = "watchers or hooks or not cache" + (" or not current()" if watching else "")
        meta = "".join(f", {name!r}: {word}" for name, word in self.given.items())
        return "\n".join(
            [
                "def key(args, kwargs):",
                "    try:",
                *self._unpacked(),
                f"        key = {self._key()}",
                "        hash(key)",
                "    except (RuntimeError, TypeError):",
                "        return None",
                "    return key",
                "",
                "def again(grid, args, kwargs):",
                f"    if {guard}:",
                "        return None",
                "    try:",
                *self._unpacked(),
                f"        entry = table.get({self._key()})",
                "    except (RuntimeError, TypeError):",
                "        return None",
                "    if entry is None:",
                "        return None",
                "    repeat, kernel, known = entry",
                "    if type(grid) is not tuple and callable(grid):",
                f"        grid = grid({{**known{meta}}})",
                f"    if repeat(normalise_grid(grid), {_tuple(self._values)}):",
                "        return kernel",
                "    return None",
            ]
        )

    def _unpacked(self) -> list[str]:
        lines = []
        if self._positional:
            lines.append(f"{_tuple([f'a{at}' for at in range(self._positional)])} = args")
        if self._keywords:
            lines.append(f"{_tuple([f'k{at}' for at in range(self._keywords)])} = kwargs.values()")
        return [" " * 8 + line for line in [*lines, *self._reads]]

    def _key(self) -> str:
        """The key's text: most addresses are all aligned, which one test of all of them finds."""
        parts = ["config.backend", *self._parts]
        if self._addresses:
            each = _tuple([f"{address} % {DIVISOR}" for address in self._addresses])
            parts.append(f"({' | '.join(self._addresses)}) % {DIVISOR} and {each}")
        return _tuple(parts)


def _tuple(words: Sequence[str]) -> str:
    return f"({''.join(f'{word}, ' for word in words)})"
