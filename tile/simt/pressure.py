"""How many registers a thread needs for tiles in a loop of products: an estimate.

Indices, masks and pointers are left out, since they are few, or computed again; and of a factor
that a round reads from shared memory a part is there at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from tile.analysis.liveness import Liveness
from tile.ir.core import Operation, Value
from tile.ir.ops import arith, linalg, shape
from tile.ir.types import I1, I32, Fragment, Scalar, Tile
from tile.simt import ops
from tile.simt.layout_rules import maybe_layout
from tile.simt.layouts.dims import REGISTER
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.matrix import matrix_dot
from tile.simt.product_pieces import K_AXES
from tile.simt.target import SimtTarget

# What a thread needs besides tiles, for addresses, masks and counts: in comfort, and at least.
# With 224 for tiles, the product of 128 x 128 x 64 by 4 warps, it gets by with 255.
OTHERS = 64
LEAST = 24
# The bytes of k of a factor that is read from shared memory of which a thread has its part at once.
AT_ONCE = 32
WORD_BITS = 32

_PRODUCTS = frozenset({linalg.dot, matrix_dot, ops.matrix.matrix_multiply})
# What takes no registers, or those of another tile.
_FILLED = frozenset({arith.const, shape.splat, shape.broadcast, ops.thread.fill, ops.thread.pick})
# What brings a factor from shared memory.
_READS = frozenset({convert_layout, ops.thread.shared_matrix_load})


def is_short(tiles: int, target: SimtTarget) -> bool:
    """Whether a thread that needs so many registers for tiles would keep some in memory."""
    return tiles + LEAST > target.registers


def pressure(loop: Operation, live: Liveness) -> int:
    """The registers of 32 bits that a thread needs for tiles at once somewhere in a loop, about.

    The loop is one of tiles with layouts, before it is pipelined, or of fragments.
    """
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
                add(there.start, _end(value, live), words(value))
            for product, index in read:
                at = live.start(product)
                add(at, at + 1, _at_once(value, product, index))
    return max(accumulate(changes))


def _end(value: Value, live: Liveness) -> int:
    """Where a value is needed last, be it by what is picked from it."""
    picked = [user.result for user in value.users if user.defn is ops.thread.pick]
    return max([live.of(value).end, *[_end(other, live) for other in picked]])


def words(value: Value) -> int:
    """The registers in which a thread holds a tile; none for what is left out."""
    ty, count = value.type, _count(value)
    if not count or not isinstance(ty.element, Scalar):
        return 0
    if ty.element == I1 or (ty.element == I32 and not _is_sum(value)) or _is_filled(value):
        return 0
    return max(1, ty.element.bits * count // WORD_BITS)


def _count(value: Value) -> int:
    """The elements of a tile that a thread has."""
    if isinstance(value.type, Fragment):
        return value.type.count
    layout = maybe_layout(value)
    return 0 if layout is None or not isinstance(value.type, Tile) else layout.in_size(REGISTER)


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
    if op is None or op.defn not in _READS or op.block is not loop.regions[0]:
        return []
    uses = list(_uses(value))
    taken = all(user.defn in _PRODUCTS and index < len(K_AXES) for user, index in uses)
    return uses if taken else []


def _uses(value: Value) -> Iterator[tuple[Operation, int]]:
    """The uses of a value and of what is picked from it."""
    for user, index in value.uses:
        if user.defn is ops.thread.pick:
            yield from _uses(user.result)
        else:
            yield user, index


def _at_once(value: Value, product: Operation, index: int) -> int:
    """The registers of what is there at once of a factor of a product."""
    ty = value.type
    if isinstance(ty, Tile):
        extent = ty.shape[K_AXES[index]]
    else:
        extent = product["shape"][2] * product["repeats"][2]
    return max(1, words(value) * AT_ONCE // max(extent * ty.element.itemsize, AT_ONCE))
