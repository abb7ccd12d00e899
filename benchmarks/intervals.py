"""Medians with intervals that assume no distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median: samples whose ranks a fair coin decides."""
    count = len(samples)
    rank, tail = 0, 0.5**count
    while tail <= 0.025:
        rank += 1
        tail += math.comb(count, rank) * 0.5**count
    ordered = sorted(samples)
    low = max(rank - 1, 0)
    return ordered[low], ordered[count - 1 - low]


def ratios(mine: Sequence[float], its: Sequence[float]) -> list[float]:
    """Return the ratios of speeds of paired samples of seconds."""
    return [theirs / own for own, theirs in zip(mine, its, strict=True)]
