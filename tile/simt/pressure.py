"""How many registers a thread needs in a loop of products: an estimate, before it is pipelined.

Indices, masks and pointers are left out, since they are few, or computed again; and of a factor
that a round reads from shared memory a part is there at a time.
"""

from __future__ import annotations

from itertools import accumulate

from tile.analysis.liveness import Liveness
from tile.ir.core import Operation, Value
from tile.ir.ops import arith, linalg, shape
from tile.ir.types import I1, I32, Scalar, Tile
from tile.simt.layout_rules import maybe_layout
from tile.simt.layouts.dims import REGISTER
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.matrix import matrix_dot
from tile.simt.product_pieces import K_AXES

# What a thread needs besides tiles: addresses, masks, counts.
OTHERS = 64
# The bytes of k of a factor that is read from shared memory of which a thread has its part at once.
AT_ONCE = 32
WORD_BITS = 32

_PRODUCTS = frozenset({linalg.dot, matrix_dot})
# What takes no registers, or those of another tile.
_FILLED = frozenset({arith.const, shape.splat, shape.broadcast})


def pressure(loop: Operation, live: Liveness) -> int:
    """The registers of 32 bits that a thread needs at once somewhere in a loop, about."""
    first, last = live.start(loop), live.end(loop)
    changes = [0] * (last - first + 2)

    def add(start: int, end: int, count: int) -> None:
        start, end = max(start, first), min(end, last)
        if start < end:
            changes[start - first] += count
            changes[end - first] -= count

    for value, there in live.ranges.items():
        if there.start < last and there.end > first:
            read = _read_by(value, loop)
            if not read:
                add(there.start, there.end, words(value))
            for product, index in read:
                at = live.start(product)
                add(at, at + 1, _at_once(value, index))
    return max(accumulate(changes)) + OTHERS


def words(value: Value) -> int:
    """The registers in which a thread holds a tile; none for what is left out."""
    ty, layout = value.type, maybe_layout(value)
    if not isinstance(ty, Tile) or layout is None or not isinstance(ty.of, Scalar):
        return 0
    if ty.of == I1 or (ty.of == I32 and not _is_sum(value)) or _is_filled(value):
        return 0
    return max(1, (ty.of.bits << layout.in_bits(REGISTER)) // WORD_BITS)


def _is_filled(value: Value) -> bool:
    return value.op is not None and value.op.defn in _FILLED


def _is_sum(value: Value) -> bool:
    """Whether a value is the result of a product, or what one adds to."""
    if value.op is not None and value.op.defn in _PRODUCTS:
        return True
    return any(user.defn in _PRODUCTS for user, _ in value.uses)


def _read_by(value: Value, loop: Operation) -> list[tuple[Operation, int]]:
    """The products that take a factor from shared memory in each round; else none."""
    op = value.op
    if op is None or op.defn is not convert_layout or op.block is not loop.regions[0]:
        return []
    uses = list(value.uses)
    taken = all(user.defn in _PRODUCTS and index < len(K_AXES) for user, index in uses)
    return uses if taken else []


def _at_once(value: Value, index: int) -> int:
    """The registers of what is there at once of a factor of a product."""
    ty = value.type
    assert isinstance(ty, Tile)
    k = ty.shape[K_AXES[index]] * ty.of.itemsize
    return max(1, words(value) * AT_ONCE // max(k, AT_ONCE))
