"""The options that layouts are chosen for."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.types import Tile
from tile.simt.coalescing import default_layout
from tile.simt.layouts.layout import LinearLayout
from tile.simt.target import SimtTarget


@dataclass(frozen=True)
class Machine:
    """A target, and the number of warps of a program."""

    target: SimtTarget
    num_warps: int

    @property
    def threads(self) -> int:
        return self.target.warp_size * self.num_warps

    def default(self, ty: Tile, axis: int | None = None) -> LinearLayout:
        """Return the layout of an otherwise unconstrained tile.

        If it is combined along `axis`, counted from the right, that axis comes first: a warp then
        holds as much of it as possible.
        """
        order = None
        if axis is not None:
            first = axis % ty.rank
            order = (first, *(a for a in range(ty.rank)[::-1] if a != first))
        return default_layout(ty, self.target, self.num_warps, order)
