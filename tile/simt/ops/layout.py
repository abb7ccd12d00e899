"""Operations on laid-out tiles that move elements between threads, and their analysis rules.

A layout conversion preserves axis info and ranges: these describe elements, whoever holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.analysis import axis_rules, ranges
from tile.analysis.axis_lattice import AxisInfo
from tile.analysis.interval import Interval
from tile.analysis.ranges import Ranges
from tile.ir.core import Operation
from tile.ir.declare import op
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import LAID_OUT
from tile.ir.ops.shape import along
from tile.ir.types import I1, Tile, Type, require, without_layout


@op(
    semantics=lambda x, *, result: x,
    unit_axes_broadcast=True,
    levels=LAID_OUT,
    examples=(
        "%x: tile<4xf32, #linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 4}> | "
        "%r = convert_layout %x : "
        "tile<4xf32, #linear{register = [], lane = [[2],[1]], warp = [] -> dim0 = 4}>",
    ),
)
def convert_layout(x: Type, *, result: Type) -> Type:
    """Convert a tile to another layout."""
    require(
        isinstance(x, Tile) and without_layout(result) == x,
        f"convert_layout keeps the tile {x} and changes its layout alone, not to {result}",
    )
    return result


def _exchange(x: Any, *, axis: int, mask: int) -> Any:
    return np.take(x, np.arange(x.shape[axis]) ^ mask, axis=axis)


@op(
    semantics=_exchange,
    levels=LAID_OUT,
    examples=(
        "%x: tile<4xf32, #linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 4}> | "
        "%r = butterfly %x {axis = -1, mask = 1} : "
        "tile<4xf32, #linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 4}>",
    ),
)
def butterfly(x: Type, *, axis: int, mask: int) -> Type:
    """Permute elements along an axis: i is element i XOR `mask` of `x`, in the same layout.

    With all bits in the mask the axis is reversed; with one, elements at that distance swap.
    """
    along("butterfly", x, axis)
    extent = x.shape[axis]
    require(
        is_power_of_two(extent) and 0 <= mask < extent,
        f"butterfly along an axis of extent {extent} takes a mask from 0 to {extent - 1}, "
        f"not {mask}",
    )
    return x


@op(
    semantics=lambda x: np.any(x, axis=-1),
    levels=LAID_OUT,
    examples=(
        "%x: tile<4xi1, #linear{register = [], lane = [[0],[0]], warp = [[1],[2]] -> dim0 = 4}> | "
        "%r = warp_any %x : i1",
    ),
)
def warp_any(x: Type) -> Type:
    """Return the element of `x` that a warp holds, which differs from warp to warp.

    The reference semantics, which know no warps, return True if any element is true. So it is the
    condition of branches alone that change nothing in a warp whose element is false.
    """
    require(
        isinstance(x, Tile) and len(x.shape) == 1 and x.element == I1,
        f"warp_any takes a tile of one axis of i1, not {x}",
    )
    return I1


def _same_axes(op: Operation, facts: Sequence[AxisInfo | None], bounds: Ranges) -> AxisInfo:
    (fact,) = facts
    assert fact is not None
    return fact


def _same_range(op: Operation, facts: Sequence[Interval]) -> Interval:
    return facts[0]


axis_rules.RULES[convert_layout] = _same_axes
ranges.RULES[convert_layout] = _same_range
