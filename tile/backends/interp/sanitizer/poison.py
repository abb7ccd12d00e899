"""Poison: elements of values that are undefined or wrong, with the cause."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.values import (
    Array,
    CheckedValue,
    RegisterValue,
    Repeated,
    Rows,
    RunValue,
    array_of,
    merge,
    take,
)
from tile.location import Loc


class PoisonKind(enum.Enum):
    """Kinds of poison."""

    UNDEFINED = enum.auto()  # never assigned or written
    WRAPPED = enum.auto()  # derived from signed arithmetic that wrapped
    STRAYED = enum.auto()  # a pointer that left one array's window for another's


@dataclass(frozen=True)
class Cause:
    """The origin of poison: a location, what happened there, and how to fix it."""

    loc: Loc | None
    text: str
    advice: str = ""


class PoisonMask:
    """The elements with one kind of poison, as a bool array that broadcasts to the value's shape.

    After a masked load these are the elements where its `load_mask` is false. That inverse is
    computed lazily: most often the value is stored under the same mask object, which proves without
    any work that the poison is not stored.
    """

    __slots__ = ("_where", "cause", "load_mask")

    def __init__(self, where: Array | None, cause: Cause, load_mask: Array | None = None) -> None:
        self._where = where
        self.cause = cause
        self.load_mask = load_mask

    @property
    def where(self) -> Array:
        """The poisoned elements, a bool array."""
        if self._where is None:
            assert self.load_mask is not None
            self._where = ~self.load_mask
        return self._where

    def union(self, other: PoisonMask) -> PoisonMask:
        """Return the elements that are in either mask, with the cause of this one."""
        if self is other or (self.load_mask is not None and self.load_mask is other.load_mask):
            return self
        return PoisonMask(self.where | other.where, self.cause)

    def excluded_by(self, mask: Array | None) -> bool:
        """Return True if it is known at no cost that no poisoned element is active under `mask`."""
        return mask is not None and mask is self.load_mask


PoisonMasks = Mapping[PoisonKind, PoisonMask]


class Poisoned(CheckedValue):
    """A value with poison of at least one kind."""

    __slots__ = ("masks", "value")

    def __init__(self, value: RunValue, masks: PoisonMasks) -> None:
        self.value = value
        self.masks = masks

    def array(self) -> Array:
        return array_of(self.value)

    def take_rows(self, rows: Rows) -> CheckedValue:
        masks = {kind: PoisonMask(_take(f.where, rows), f.cause) for kind, f in self.masks.items()}
        return Poisoned(_as_plain(take(self.value, rows)), masks)

    def merged(self, parts: Sequence[tuple[Rows, RegisterValue]], programs: int) -> RegisterValue:
        value = merge([(rows, plain_value(part)) for rows, part in parts], programs)
        rank = array_of(value).ndim
        nothing = np.zeros((1,) * rank, np.bool_)
        masks = {}
        for kind in PoisonKind:
            poisons = [(rows, poison_of(part, kind)) for rows, part in parts]
            causes = [poison.cause for _, poison in poisons if poison is not None]
            if causes:
                poisoned_parts: list[tuple[Rows, RegisterValue]] = [
                    (rows, nothing if poison is None else poison.where) for rows, poison in poisons
                ]
                masks[kind] = PoisonMask(array_of(merge(poisoned_parts, programs)), causes[0])
        return with_poison(_as_plain(value), masks)


def _take(where: Array, rows: Rows) -> Array:
    return where if where.shape[0] == 1 else where[rows]


def _as_plain(value: RegisterValue) -> RunValue:
    assert not isinstance(value, CheckedValue | Repeated)
    return value


def plain_value(value: RegisterValue) -> RunValue:
    """Return the value without its poison."""
    return value.value if isinstance(value, Poisoned) else _as_plain(value)


def poison_of(value: Any, kind: PoisonKind) -> PoisonMask | None:
    """Return the elements with one kind of poison; None if there are none or `value` is absent."""
    return value.masks.get(kind) if type(value) is Poisoned else None


def with_poison(value: RunValue, masks: PoisonMasks) -> RegisterValue:
    """Return the value with these masks; the plain value if there are none."""
    return Poisoned(value, masks) if masks else value


def add_poison(value: RegisterValue, kind: PoisonKind, where: Array, cause: Cause) -> RegisterValue:
    """Return the value with further elements poisoned, those where `where` is true."""
    if not where.any():
        return value
    added = PoisonMask(where, cause)
    masks = dict(value.masks) if isinstance(value, Poisoned) else {}
    masks[kind] = masks[kind].union(added) if kind in masks else added
    return Poisoned(plain_value(value), masks)
