"""The machine that layouts are chosen for."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.types import Tile
from tile.simt.coalescing import default_layout
from tile.simt.layouts.layout import LinearLayout
from tile.simt.target import SimtTarget


@dataclass(frozen=True)
class Machine:
    """A target, and how many warps a program has."""

    target: SimtTarget
    num_warps: int

    @property
    def threads(self) -> int:
        return self.target.warp_size * self.num_warps

    def default(self, ty: Tile, axis: int | None = None) -> LinearLayout:
        """The layout of a tile that nothing else decides on.

        Where it is to be combined along an axis, counted from the right, that one comes first: a
        warp then has as much of it as it can.
        """
        order = None
        if axis is not None:
            first = axis % ty.rank
            order = (first, *(a for a in range(ty.rank)[::-1] if a != first))
        return default_layout(ty, self.target, self.num_warps, order)
