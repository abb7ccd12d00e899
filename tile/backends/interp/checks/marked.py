"""Values of which some elements are not what they seem, with the reason."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.values import (
    Array,
    Held,
    Rows,
    RunValue,
    Watched,
    array_of,
    merge,
    take,
)
from tile.errors import Loc


class Mark(enum.Enum):
    """What may be wrong with an element."""

    UNDEFINED = enum.auto()  # nobody gave it a value
    WRAPPED = enum.auto()  # it comes of signed arithmetic that wrapped
    STRAYED = enum.auto()  # a pointer that left one array's window for another's


@dataclass(frozen=True)
class Cause:
    """The origin of a mark: a place, what happened there, and what to do about it."""

    loc: Loc | None
    text: str
    advice: str = ""


class Flag:
    """The elements that have a mark, as truths that broadcast to the value's shape.

    Those of a masked load are the mask's opposite. It is computed when somebody asks for it: most
    often the value is stored under the same mask, which shows at a glance that it does not matter.
    """

    __slots__ = ("_where", "cause", "outside")

    def __init__(self, where: Array | None, cause: Cause, outside: Array | None = None) -> None:
        self._where = where
        self.cause = cause
        self.outside = outside

    @property
    def where(self) -> Array:
        """The truths themselves."""
        if self._where is None:
            assert self.outside is not None
            self._where = ~self.outside
        return self._where

    def union(self, other: Flag) -> Flag:
        """The elements that one of two flags has."""
        if self is other or (self.outside is not None and self.outside is other.outside):
            return self
        return Flag(self.where | other.where, self.cause)

    def spared_by(self, mask: Array | None) -> bool:
        """Whether it is known at no cost that no flagged element is active under a mask."""
        return mask is not None and mask is self.outside


Flags = Mapping[Mark, Flag]


class Marked(Watched):
    """A value with flags, at least one."""

    __slots__ = ("flags", "value")

    def __init__(self, value: RunValue, flags: Flags) -> None:
        self.value = value
        self.flags = flags

    def array(self) -> Array:
        return array_of(self.value)

    def among(self, rows: Rows) -> Watched:
        flags = {mark: Flag(_taken(f.where, rows), f.cause) for mark, f in self.flags.items()}
        return Marked(_plain(take(self.value, rows)), flags)

    def merged(self, parts: Sequence[tuple[Rows, Held]], programs: int) -> Held:
        value = merge([(rows, bare(part)) for rows, part in parts], programs)
        rank = array_of(value).ndim
        nothing = np.zeros((1,) * rank, np.bool_)
        flags = {}
        for mark in Mark:
            found = [(rows, flag_of(part, mark)) for rows, part in parts]
            causes = [flag.cause for _, flag in found if flag is not None]
            if causes:
                truths: list[tuple[Rows, Held]] = [
                    (rows, nothing if flag is None else flag.where) for rows, flag in found
                ]
                flags[mark] = Flag(array_of(merge(truths, programs)), causes[0])
        return marked(_plain(value), flags)


def _taken(where: Array, rows: Rows) -> Array:
    return where if where.shape[0] == 1 else where[rows]


def _plain(value: Held) -> RunValue:
    assert not isinstance(value, Watched)
    return value


def bare(value: Held) -> RunValue:
    """The value without what is known of it."""
    return value.value if isinstance(value, Marked) else _plain(value)


def flag_of(value: Any, mark: Mark) -> Flag | None:
    """The elements of a value that have a mark; None for a value that is absent, too."""
    return value.flags.get(mark) if type(value) is Marked else None


def marked(value: RunValue, flags: Flags) -> Held:
    """The value with these flags, if there are any."""
    return Marked(value, flags) if flags else value


def raised(value: Held, mark: Mark, where: Array, cause: Cause) -> Held:
    """The value with some more elements marked."""
    if not where.any():
        return value
    fresh = Flag(where, cause)
    flags = dict(value.flags) if isinstance(value, Marked) else {}
    flags[mark] = flags[mark].union(fresh) if mark in flags else fresh
    return Marked(bare(value), flags)
