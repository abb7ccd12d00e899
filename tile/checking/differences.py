"""Compare what two launches wrote, and tell differences by rounding from others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tile.ir import numerics

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
    unequal = (baseline != varied) & ~((baseline != baseline) & (varied != varied))
    count = int(np.count_nonzero(unequal))
    if not count:
        return None
    apart = unequal & ~_within_rounding(baseline, varied, tolerance)
    first = np.argwhere(apart if apart.any() else unequal)[0]
    index = tuple(int(i) for i in first)
    return Difference(
        label,
        index,
        str(baseline[index]),
        str(varied[index]),
        count,
        int(np.count_nonzero(apart)),
        baseline.size,
    )


def _within_rounding(
    baseline: np.ndarray, varied: np.ndarray, tolerance: float | None
) -> np.ndarray:
    """Return the mask of elements that differ by no more than rounding; all False for integers."""
    if not numerics.scalar_of(baseline.dtype).is_floating():
        return np.zeros(baseline.shape, np.bool_)
    if tolerance is None:
        one, two = baseline.dtype.type(1), baseline.dtype.type(2)
        epsilon = float(np.nextafter(one, two)) - 1
        tolerance = epsilon * (_WIDE_EPSILONS if baseline.itemsize >= 4 else _NARROW_EPSILONS)
    a, b = baseline.astype(np.float64), varied.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    largest = np.abs(a[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        near: np.ndarray = finite & (np.abs(a - b) <= tolerance * largest)
    return near
