"""The rule by which launches are dependent: programs that start while those before still run.

That hides a microsecond of a launch (`launch_pdl`). But each program of a dependent launch waits
for the launch before, and a GPU lets them through one after the other. So launches of many short
programs take longer than ordinary ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tile.measured import constant
from tile.ops.core.array_arguments import is_array

SOURCE = "docs/notes/ops.md#dependent-launches: H200, 2026-11-30"


@dataclass(frozen=True)
class Rates:
    """The rates of a GPU that decide."""

    interval: float = constant(1.21e-9, SOURCE)  # seconds between programs that have waited
    bandwidth: float = constant(4.3e12, SOURCE)  # bytes a second of a copy
    programs: int = constant(2048, SOURCE)  # that always gain: they wait for 2.5 us together


RATES = Rates()


def is_dependent(grid: Sequence[int], arguments: Iterable[Any], rates: Rates = RATES) -> bool:
    """Return True if a launch gains by being dependent.

    Its time is taken to be that of memory, in which each array is read or written once.

        >>> is_dependent((132,), [])
        True
        >>> is_dependent((65536,), [np.zeros(2**20)])
        False
    """
    programs = math.prod(grid)
    if programs <= rates.programs:
        return True
    return programs * rates.interval <= _bytes(arguments) / rates.bandwidth


def _bytes(values: Iterable[Any]) -> int:
    return sum(
        _bytes(value) if isinstance(value, tuple) else value.nbytes
        for value in values
        if isinstance(value, tuple) or is_array(value)
    )
