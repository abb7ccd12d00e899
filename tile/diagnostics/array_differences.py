"""Differences of the arrays of two runs, and whether rounding may have made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tile.ir import semantics

Outputs = Mapping[str, np.ndarray]

# The difference that another order of summation may make, in the dtype's epsilons and relative to
# the largest number of the array. Wide types round every partial sum, narrow types only the result.
_WIDE_EPSILONS = 128
_NARROW_EPSILONS = 4


@dataclass(frozen=True)
class Difference:
    """An array that differs between two runs of a launch.

    index: the first element that differs, by more than rounding if any does.
    here, there: its values in the program's own launch and in the other one.
    count: the number of elements that differ, of `size`.
    apart: the number of elements that differ by more than rounding.
    """

    label: str
    index: tuple[int, ...]
    here: str
    there: str
    count: int
    apart: int
    size: int

    @property
    def rounding(self) -> bool:
        """True if the difference may come from another order of summation."""
        return not self.apart

    def __str__(self) -> str:
        where = f"`{self.label}[{', '.join(map(str, self.index))}]`"
        return (
            f"{where} is {self.here} as the program launches it, and {self.there} that way; "
            f"{self.count} of {self.size} elements differ"
            + (", all by no more than rounding" if self.rounding else "")
        )


def copies(outputs: Outputs) -> dict[str, np.ndarray]:
    """Return copies of arrays."""
    return {label: array.copy() for label, array in outputs.items()}


def differences(
    baseline: Outputs, varied: Outputs, tolerance: float | None = None
) -> list[Difference]:
    """Return the differences of arrays that are not equal bit by bit (all NaNs are equal).

    tolerance: of rounding, relative to the largest number of an array; None: the dtype's own.
    """
    compared = (
        _difference(label, array, varied[label], tolerance)
        for label, array in baseline.items()
        if label in varied
    )
    return [difference for difference in compared if difference is not None]


def _difference(
    label: str, baseline: np.ndarray, varied: np.ndarray, tolerance: float | None
) -> Difference | None:
    if baseline.shape != varied.shape or baseline.dtype != varied.dtype:
        return None  # another array: not the same launch
    here, there = semantics.printable(baseline), semantics.printable(varied)
    unequal = (here != there) & ~((here != here) & (there != there))
    count = int(np.count_nonzero(unequal))
    if not count:
        return None
    apart, epsilon = unequal, _epsilon(baseline)
    if epsilon is not None:
        limit = epsilon if tolerance is None else tolerance
        apart = unequal & ~_within_rounding(here, there, limit)
    first = np.argwhere(apart if apart.any() else unequal)[0]
    index = tuple(int(i) for i in first)
    return Difference(
        label,
        index,
        str(here[index]),
        str(there[index]),
        count,
        int(np.count_nonzero(apart)),
        baseline.size,
    )


def _epsilon(array: np.ndarray) -> float | None:
    """Return the relative difference that rounding may make in floats; None for integers."""
    element = semantics.scalar_of(array.dtype)
    if not element.is_floating():
        return None
    epsilons = _WIDE_EPSILONS if array.itemsize >= 4 else _NARROW_EPSILONS
    return float(2.0**-element.fp_mantissa_width * epsilons)


def _within_rounding(baseline: np.ndarray, varied: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the mask of floats that differ by no more than `tolerance` times the largest."""
    a, b = baseline.astype(np.float64), varied.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    largest = np.abs(a[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        near: np.ndarray = finite & (np.abs(a - b) <= tolerance * largest)
    return near
