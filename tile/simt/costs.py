"""What operations, conversions and accesses of tiles cost, to choose between layouts.

The unit is an instruction of a thread. A conversion takes each byte through shared memory and back,
which is eight times as slow as arithmetic on it; one that only renames registers costs nothing.
"""

from __future__ import annotations

from functools import lru_cache

from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.types import Tile
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.layout import LinearLayout

# A conversion costs something however small the tile is: threads wait for each other.
SYNC = 32
# Bytes that global memory moves at least, and how long that takes: the nearest cache gives a warp
# four sectors while an instruction is issued, the next one is asked for one.
SECTOR = 32
SECTOR_COST = 0.5
# Instructions of an operation on one element, where it is more than one.
_LONG = 8
_LONG_OPS: frozenset[OpDef] = frozenset({arith.div, arith.rem})


def work(op: Operation, layout: LinearLayout) -> int:
    """The cost of an operation on a tile in a layout; copies are computed, too."""
    each = _LONG if op.defn.family == "math" or op.defn in _LONG_OPS else 1
    return each << layout.in_bits(REGISTER)


def conversion(ty: Tile, source: LinearLayout, result: LinearLayout) -> int:
    """The cost of a conversion between layouts of a tile."""
    if source == result:
        return 0
    return SYNC * _moves(source, result) + _registers(source, result) * (max(8, ty.of.bits) // 8)


def access(itemsize: int, taken: int, apart: int | None, lanes: int) -> float:
    """The cost for each element of a thread of an access to global memory.

    Elements are of `itemsize` bytes. Each instruction takes `taken` neighbours a lane; those of the
    next lane begin `apart` elements on, or anywhere (None). It costs one for itself, and for each
    sector that its warp touches as long as that takes.
    """
    alone = max(taken * itemsize, SECTOR)
    each = alone if apart is None else min(apart * itemsize, alone)
    return (1 + SECTOR_COST * lanes * each / SECTOR) / taken


@lru_cache(maxsize=4096)
def _moves(source: LinearLayout, result: LinearLayout) -> bool:
    """Whether elements leave their threads."""
    same = all(
        a == b for (name, a), (_, b) in zip(source.ins, result.ins, strict=True) if name != REGISTER
    )
    return not same or {*source.images(REGISTER)} != {*result.images(REGISTER)}


def _registers(source: LinearLayout, result: LinearLayout) -> int:
    """Registers that are written to shared memory, or read from there."""
    if not _moves(source, result):
        return 0
    return (1 << source.in_bits(REGISTER)) + (1 << result.in_bits(REGISTER))
