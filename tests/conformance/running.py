"""Running IR on the backend under test, and judging what it left in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.ulp import ulp_distance
from tile import backends
from tile.backends.base import Options, Target
from tile.ir.module import Module
from tile.ir.parser import parse_module

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Device:
    """A backend by name, as `--backend` gives it: `interp`, `interp:mma`, `nvptx:sm_90a`."""

    target: str
    options: Options = field(default_factory=Options)

    def run(
        self, module: Module | str, grid: tuple[int, int, int], arguments: Sequence[Any]
    ) -> None:
        """Compile a module (or its text) and launch it; arrays are written in place."""
        if isinstance(module, str):
            module = parse_module(module)
        target = Target.parse(self.target)
        backend = backends.get(target.backend)
        artifact = backend.compile(module, backend.resolve(target), self.options)
        backend.load(artifact).launch(grid, arguments)


def assert_close(actual: Array, expected: Array, ulp: float, what: str) -> None:
    """Equal bits for `ulp` 0 (a NaN is a NaN), else at most so many units in the last place apart."""
    assert actual.dtype == expected.dtype
    floats = actual.dtype.kind not in "iub"
    if ulp and floats:
        distance = ulp_distance(actual, expected)
        wrong = distance > ulp
    else:
        bits = f"u{actual.itemsize}"
        wrong = actual.view(bits) != expected.view(bits)
        if floats:
            wrong &= ~((actual != actual) & (expected != expected))
    if wrong.any():
        index = int(wrong.argmax())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements differ, the first at {index}: "
            f"{actual.flat[index]!r} instead of {expected.flat[index]!r}"
        )


def assert_within(actual: Array, expected: Array, bound: Array, what: str) -> None:
    """No further apart than `bound`, element by element; in all there are numbers."""
    assert actual.dtype == expected.dtype
    apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    wrong = ~(apart <= bound)
    if wrong.any():
        index = int(wrong.argmax())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements are too far off, the first at "
            f"{index}: {actual.flat[index]!r} instead of {expected.flat[index]!r}, where "
            f"{bound.flat[index]:g} is allowed"
        )
