"""The text of the functions that repeat launches: see `tile.runtime.repeat`, which has one whole.

Arguments by name keep their names there, so all others begin with `~` in what is written here,
which `Writer.text` replaces by underscores, as many as set them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.ir.types import F32, F64, Kind, Pointer, Scalar
from tile.language.constexpr import constexpr
from tile.runtime.descriptor import TensorDescriptor
from tile.runtime.grid import LIMITS
from tile.runtime.signature import DIVISOR
from tile.runtime.torch_arrays import is_plain_tensor

F32_MAX = float(np.finfo(np.float32).max)


class Writer:
    """Writes the functions of a plan for calls with some positional and some named arguments.

    `runtime` and `constant` take an argument by its word there, and say whether they know its type.
    `numbered` says that a tensor's device is known by its number alone, which takes less to ask.
    """

    def __init__(self, positional: int, keywords: Sequence[str], *, numbered: bool) -> None:
        self.positional = tuple(f"~a{at}" for at in range(positional))
        self.keywords = tuple(keywords)
        self._device = "get_device()" if numbered else "device"
        self.given: dict[str, str] = {}  # by the parameter's name, the argument's
        self.parameters: list[int] = []
        self._values: list[str] = []
        self._addresses: list[str] = []
        self._reads: list[str] = []
        self._checks: list[str] = []  # after them, where a key is to be made, not looked up
        self._parts: list[str] = []

    def runtime(
        self, word: str, value: Any, index: int, annotated: Scalar | Pointer | None
    ) -> bool:
        kind = type(value)
        if kind is type(None):
            return True
        self.parameters.append(index)
        if isinstance(annotated, Scalar):
            return self._number(word, kind, annotated)
        if kind is TensorDescriptor:
            self._descriptor(word, len(value.shape))
            return True
        if kind is int:
            self._parts.append(
                f"({word} == 1 or {word} % {DIVISOR} == 0 and {DIVISOR}) "
                f"if -0x80000000 <= {word} <= 0x7FFFFFFF else ~wide({word})"
            )
        elif is_plain_tensor(kind):
            address = f"~p{len(self._addresses)}"
            self._reads.append(f"{address} = {word}.data_ptr()")
            self._addresses.append(address)
            self._parts += [f"{word}.dtype", f"{word}.{self._device}"]
            word = address
        elif kind not in (float, bool):
            return False
        self._values.append(word)
        return True

    def _number(self, word: str, kind: type, ty: Scalar) -> bool:
        """A number for an annotated parameter; of one out of range, the key is never that of one.

        Those that other types become are left to ordinary launches.
        """
        if kind is int and ty.kind is Kind.INT:
            self._parts.append(
                f"{word} % {DIVISOR} == 0 if {ty.min_value} <= {word} <= {ty.max_value} "
                f"else ~wide({word})"
            )
        elif kind is float and ty == F32:
            self._parts.append(f"-{F32_MAX!r} <= {word} <= {F32_MAX!r} or {word}.hex()")
        elif kind is not float or ty != F64:
            return False
        self._values.append(word)
        return True

    def _descriptor(self, word: str, rank: int) -> None:
        """Another base may be given; all else of a descriptor, which was checked, is in the key.

        One of another rank cannot be read so, and is left to an ordinary launch.
        """
        number = len(self._addresses)
        base, address = f"~b{number}", f"~p{number}"
        self._reads += [f"{base} = {word}.base", f"{address} = {base}.data_ptr()"]
        self._checks.append(f"if not ~plain(type({base})): raise TypeError")
        self._addresses.append(address)
        self._parts += [f"type({base})", f"{base}.dtype", f"{base}.{self._device}"]
        self._parts += [f"{base}.shape", f"{base}.stride()", f"{word}.padding"]
        for name, letter in (("shape", "n"), ("strides", "s"), ("block_shape", "k")):
            numbers = [f"~{letter}{number}_{axis}" for axis in range(rank)]
            self._reads.append(f"{_tuple(numbers)} = {word}.{name}")
            self._parts += numbers
        self._values.append(address)

    def constant(self, word: str, kind: type) -> bool:
        if kind is float:
            self._parts.append(f"{word}.hex()")  # which tells -0.0 from 0.0, and knows each NaN
            return True
        self._parts.append(word)
        return not issubclass(kind, float | tuple | np.generic | constexpr)

    def text(self, *, watching: bool) -> str:
        words = (*self.positional, *self.keywords)
        kinds = [f"type({word}) is ~t{at}" for at, word in enumerate(words)]
        state = ["not ~rest", "not ~more", "~cache", "~alive", "not ~hooks", "not ~watchers"]
        guard = " and ".join([*kinds, *state, *(["~current()"] if watching else [])])
        given = "".join(f", {name!r}: {word}" for name, word in self.given.items())
        body = [
            f"    if {guard}:",
            "        try:",
            *self._indented(12, self._reads),
            f"            ~entry = ~table.get({self._key()})",
            "        except ~unreadable:",
            "            ~entry = None",
            "        if ~entry is not None:",
            "            ~repeat, ~kernel, ~known = ~entry",
            "            if type(~grid) is not tuple and callable(~grid):",
            f"                ~grid = ~grid({{**~known{given}}})",
            *self._extents(),
            f"            if ~repeat({', '.join(['~x', '~y', '~z', *self._values])}):",
            "                return ~kernel",
            *self._handing_over(words),
        ]
        lines = [
            f"def ~key({self._signature('')}):",
            "    try:",
            *self._indented(8, [*self._reads, *self._checks]),
            f"        ~found = {self._key()}",
            "        hash(~found)",
            "    except ~unreadable:",
            "        return None",
            "    return ~found",
            "",
            f"def ~again(~grid, {self._signature(' = ~absent')}):",
            "    try:",
            *self._indented(4, body),
            "    except Exception as ~error:",
            "        ~trim(~error)",
            "        raise",
        ]
        return "\n".join(lines).replace("~", self.prefix)

    def _handing_over(self, words: Sequence[str]) -> list[str]:
        """All arguments as they came: most calls have those that this function names."""
        here = " and ".join(f"{word} is not ~absent" for word in words) or "True"
        given = [*self.positional, "*~rest", *(f"{n}={n}" for n in self.keywords), "**~more"]
        return [
            f"    if {here}:",
            f"        return ~unlike(~shape, ~grid, {', '.join(given)})",
            f"    ~args = {_tuple(self.positional)}",
            f"    ~named = {{{', '.join(f'{name!r}: {name}' for name in self.keywords)}}}",
            "    ~args, ~named = ~all(~args, ~rest, ~named, ~more)",
            "    return ~unlike(~shape, ~grid, *~args, **~named)",
        ]

    @property
    def prefix(self) -> str:
        """What names begin with that no argument has."""
        prefix = "_"
        while any(name.startswith(prefix) for name in self.keywords):
            prefix += "_"
        return prefix

    def _signature(self, default: str) -> str:
        """Of one function without defaults, and of one that takes any other arguments, too."""
        some = [f"{word}{default}" for word in self.positional]
        named = [f"{word}{default}" for word in self.keywords]
        rest, more = (["*~rest"], ["**~more"]) if default else (["*"] if named else [], [])
        return ", ".join([*some, *(["/"] if some or default else []), *rest, *named, *more])

    @staticmethod
    def _indented(by: int, lines: Sequence[str]) -> list[str]:
        return [" " * by + line for line in lines]

    def _extents(self) -> list[str]:
        """The most frequent kind of grid takes no call."""
        return [
            "            if (",
            "                type(~grid) is tuple and len(~grid) == 1",
            f"                and type(~grid[0]) is int and 1 <= ~grid[0] <= {LIMITS[0]}",
            "            ):",
            "                ~x, ~y, ~z = ~grid[0], 1, 1",
            "            else:",
            "                ~x, ~y, ~z = ~normalise_grid(~grid)",
            "                if 0 in (~x, ~y, ~z):",
            "                    return ~kernel",
        ]

    def _key(self) -> str:
        """The key's text: most addresses are all aligned, which one test of all of them finds."""
        parts = ["~backend() if ~own(None) is None else ~scoped()", "~checks()", *self._parts]
        if self._addresses:
            each = _tuple([f"{address} % {DIVISOR}" for address in self._addresses])
            parts.append(f"({' | '.join(self._addresses)}) % {DIVISOR} and {each}")
        return _tuple(parts)


def _tuple(words: Sequence[str]) -> str:
    return f"({''.join(f'{word}, ' for word in words)})"
