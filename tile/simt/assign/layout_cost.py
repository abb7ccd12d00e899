"""Layout cost model: costs of operations, conversions and accesses of tiles.

The unit is one instruction of a thread. A conversion moves each byte through shared memory and
back, which is eight times as slow as arithmetic on it; one that only renames registers is free.
"""

from __future__ import annotations

from functools import lru_cache

from tile.ir.core import Operation
from tile.ir.op_definition import Trait
from tile.ir.types import Tile
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.target import SimtTarget
from tile.simt.tuning import TuningConstants

SECTOR = 32  # bytes of a sector, the smallest transfer of global memory


def op_cost(op: Operation, layout: LinearLayout, tuning: TuningConstants) -> int:
    """Return the cost of an operation on a tile in a layout, replicated elements included."""
    is_long = op.defn.family == "math" or op.has_trait(Trait.DIVISION)
    return (tuning.long_op_cost if is_long else 1) << layout.in_bits(REGISTER)


def conversion_cost(
    ty: Tile, source: LinearLayout, result: LinearLayout, tuning: TuningConstants
) -> int:
    """Return the cost of a conversion between two layouts of a tile."""
    if source == result:
        return 0
    sync = tuning.conversion_sync_cost * _moves(source, result)
    return sync + ty.of.bytes_of(_registers(source, result))


def access_cost(itemsize: int, taken: int, apart: int | None, target: SimtTarget) -> float:
    """Return the cost of an access to global memory, for each element of a thread.

    Elements are of `itemsize` bytes. Each instruction accesses `taken` contiguous elements a lane;
    those of the next lane begin `apart` elements on, or anywhere (None). An instruction costs one
    for its issue, and `sector_cost` for each sector that its warp touches.
    """
    alone = max(taken * itemsize, SECTOR)
    each = alone if apart is None else min(apart * itemsize, alone)
    sectors = target.warp_size * each / SECTOR
    return (1 + target.tuning.sector_cost * sectors) / taken


@lru_cache(maxsize=4096)
def _moves(source: LinearLayout, result: LinearLayout) -> bool:
    """Return True if elements move between threads."""
    same = all(
        a == b for (name, a), (_, b) in zip(source.ins, result.ins, strict=True) if name != REGISTER
    )
    return not same or {*source.images(REGISTER)} != {*result.images(REGISTER)}


def _registers(source: LinearLayout, result: LinearLayout) -> int:
    """Return the number of registers that are written to shared memory, plus those read from it."""
    if not _moves(source, result):
        return 0
    return (1 << source.in_bits(REGISTER)) + (1 << result.in_bits(REGISTER))
