"""Values of which some elements are not what they seem, with the reason."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.values import (
    Array,
    CheckedValue,
    Held,
    Rows,
    RunValue,
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


class PoisonMask:
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

    def union(self, other: PoisonMask) -> PoisonMask:
        """The elements that one of two flags has."""
        if self is other or (self.outside is not None and self.outside is other.outside):
            return self
        return PoisonMask(self.where | other.where, self.cause)

    def excluded_by(self, mask: Array | None) -> bool:
        """Whether it is known at no cost that no flagged element is active under a mask."""
        return mask is not None and mask is self.outside


PoisonMasks = Mapping[Mark, PoisonMask]


class Poisoned(CheckedValue):
    """A value with flags, at least one."""

    __slots__ = ("masks", "value")

    def __init__(self, value: RunValue, masks: PoisonMasks) -> None:
        self.value = value
        self.masks = masks

    def array(self) -> Array:
        return array_of(self.value)

    def take_rows(self, rows: Rows) -> CheckedValue:
        masks = {kind: PoisonMask(_take(f.where, rows), f.cause) for kind, f in self.masks.items()}
        return Poisoned(_unchecked(take(self.value, rows)), masks)

    def merged(self, parts: Sequence[tuple[Rows, Held]], programs: int) -> Held:
        value = merge([(rows, bare(part)) for rows, part in parts], programs)
        rank = array_of(value).ndim
        nothing = np.zeros((1,) * rank, np.bool_)
        masks = {}
        for kind in Mark:
            poisons = [(rows, flag_of(part, kind)) for rows, part in parts]
            causes = [poison.cause for _, poison in poisons if poison is not None]
            if causes:
                poisoned_parts: list[tuple[Rows, Held]] = [
                    (rows, nothing if poison is None else poison.where) for rows, poison in poisons
                ]
                masks[kind] = PoisonMask(array_of(merge(poisoned_parts, programs)), causes[0])
        return with_poison(_unchecked(value), masks)


def _take(where: Array, rows: Rows) -> Array:
    return where if where.shape[0] == 1 else where[rows]


def _unchecked(value: Held) -> RunValue:
    assert not isinstance(value, CheckedValue)
    return value


def bare(value: Held) -> RunValue:
    """The value without what is known of it."""
    return value.value if isinstance(value, Poisoned) else _unchecked(value)


def flag_of(value: Any, kind: Mark) -> PoisonMask | None:
    """The elements of a value that have a mark; None for a value that is absent, too."""
    return value.masks.get(kind) if type(value) is Poisoned else None


def with_poison(value: RunValue, masks: PoisonMasks) -> Held:
    """The value with these flags, if there are any."""
    return Poisoned(value, masks) if masks else value


def add_poison(value: Held, kind: Mark, where: Array, cause: Cause) -> Held:
    """The value with some more elements marked."""
    if not where.any():
        return value
    added = PoisonMask(where, cause)
    masks = dict(value.masks) if isinstance(value, Poisoned) else {}
    masks[kind] = masks[kind].union(added) if kind in masks else added
    return Poisoned(bare(value), masks)
