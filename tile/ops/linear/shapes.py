"""Matmuls of 16-bit operands, and what is chosen for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tile.ops.core.tables import Configuration


class Shape(NamedTuple):
    """A matmul of 16-bit operands.

    a_inner, b_inner: True for operands that are contiguous along the inner axis. within_sectors:
    True if rows of an operand begin within sectors of the L2 cache.
    """

    batches: int
    m: int
    n: int
    k: int
    a_inner: bool
    b_inner: bool
    within_sectors: bool = False

    def transposed(self) -> Shape:
        """Return the matmul of the transpose of the result."""
        return self._replace(m=self.n, n=self.m, a_inner=self.b_inner, b_inner=self.a_inner)


@dataclass(frozen=True)
class FewTiles:
    """The configuration of a matmul of few tiles. swapped: it computes the result's transpose."""

    config: Configuration
    swapped: bool
