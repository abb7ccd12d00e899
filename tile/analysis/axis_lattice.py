"""The lattice of `axis_info`: facts along each axis of a value, and how they join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.ir.types import Type

# The divisibility of zero, and the greatest that is tracked.
MAX_DIVISIBILITY = 1 << 30


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """Facts along each axis; see the module `axis_info`. All numbers are powers of two."""

    divisible: tuple[int, ...]
    contiguous: tuple[int, ...]
    constant: tuple[int, ...]
    value: bool | int | float | None = None

    @property
    def rank(self) -> int:
        return len(self.divisible)

    def at(self, axis: int, run: int) -> int:
        """Return the divisibility of the first element of every aligned run of `run` elements."""
        whole = self.divisible[axis]
        return whole if run >= self.contiguous[axis] else min(whole, run)

    @property
    def everywhere(self) -> int:
        """A power of two that divides every element."""
        return max(self.at(axis, 1) for axis in range(self.rank))

    def vector(self, axis: int, itemsize: int) -> int:
        """Return the number of contiguous, aligned elements of `itemsize` bytes at a pointer."""
        return min(self.contiguous[axis], max(1, self.divisible[axis] // itemsize))

    def join(self, other: AxisInfo) -> AxisInfo:
        """Return the facts that hold for both values."""
        contiguous = least(self.contiguous, other.contiguous)
        divisible = tuple(
            min(self.at(axis, run), other.at(axis, run)) for axis, run in enumerate(contiguous)
        )
        same = self.value is not None and same_number(self.value, other.value)
        constant = least(self.constant, other.constant)
        return AxisInfo(divisible, contiguous, constant, self.value if same else None)

    def __str__(self) -> str:
        facts = [
            f"{name} {_spell(numbers)}"
            for name, numbers in (
                ("divisible", self.divisible),
                ("contiguous", self.contiguous),
                ("constant", self.constant),
            )
            if any(number > 1 for number in numbers)
        ]
        if self.value is not None:
            facts.append(f"value {str(self.value).lower()}")
        return ", ".join(facts) or "unknown"


def _spell(numbers: Sequence[int]) -> str:
    texts = ["2**30" if number == MAX_DIVISIBILITY else str(number) for number in numbers]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def same_number(x: bool | int | float | None, y: bool | int | float | None) -> bool:
    """Return True if two constants are the same; -0.0 differs from 0.0, and a NaN equals itself."""
    return type(x) is type(y) and repr(x) == repr(y)


def divisor(number: int) -> int:
    """Return the greatest power of two that divides a number, at most `MAX_DIVISIBILITY`."""
    return min(number & -number, MAX_DIVISIBILITY) if number else MAX_DIVISIBILITY


def least(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    """Return the lesser number for each axis."""
    return tuple(map(min, x, y))


def extents(ty: Type) -> tuple[int, ...]:
    """Return the extents of a tile, or (1,) for a scalar."""
    return ty.shape or (1,)


def unknown(ty: Type) -> AxisInfo:
    """Return the info that states nothing about values of a type."""
    ones = (1,) * max(1, ty.rank)
    return AxisInfo(ones, ones, ones)


def uniform(ty: Type, divisible: int, value: bool | int | float | None) -> AxisInfo:
    """Return the info of a tile whose elements are all equal."""
    shape = extents(ty)
    return AxisInfo((divisible,) * len(shape), (1,) * len(shape), shape, value)
