"""Decompose `rank` and `scatter`, which order elements through shared memory.

The rank of an element is the number of lesser ones, of equal ones in earlier warps, and of equal
ones before it in its own warp. A warp holds contiguous elements, a register of its lanes after the
other, and counts them in that order in its row of a table of warps and bins. Sums of the table are
the first rank of the elements of each warp and bin.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.expressions import Expression
from tile.ir.ops import arith, shape
from tile.ir.shared_type import Shared
from tile.ir.types import I32, Tile, Type
from tile.simt import ops
from tile.simt.layouts.axes import reshape_axes
from tile.simt.layouts.blocked import blocked, warp_striped
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.layouts.swizzle import swizzled
from tile.simt.lower.decompose.axis_split import indices_along, straight
from tile.simt.lower.decompose.indexing import sorted_integers, stored
from tile.simt.lower.decompose.reduce import sum_along
from tile.simt.lower.decompose.scan import running_sum_along
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import SimtTarget


def scatter(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Store the elements at their positions in a buffer, and load it where it is used.

    So one barrier is enough for several tiles that are scattered one after the other.
    """
    x, index = op.inputs
    buffer = _scattered(b, x, b.convert(index, layout_of(x)), op["axis"])
    load = LayoutBuilder(b.block, _first_user(op), op.loc)
    return [load(ops.shared.local_load, buffer, result=op.result.type)]


def _first_user(op: Operation) -> Operation:
    """Return the first operation of the block that uses a result, or whose regions do."""
    users = {outer for user in op.result.users for outer in (user, *user.ancestors())}
    following: Operation | None = op.next
    while following is not None and following not in users:
        following = following.next
    return following or op


def _scattered(b: LayoutBuilder, x: Value, index: Value, axis: int) -> Value:
    """Return a buffer with the elements at their positions."""
    layout = swizzled(x.type.shape, vector=1, per_phase=1, max_phase=1)
    buffer = b(ops.shared.local_alloc, result=Shared(x.type.shape, x.type.element, layout))
    b.op(ops.shared.local_scatter, buffer, x, index, axis=axis)
    return buffer


def rank(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Count by warps, or sort where warps cannot count or would have copies of elements."""
    (x,) = op.inputs
    lanes, warps = (1 << layout_of(x).in_bits(name) for name in (LANE, WARP))
    layout = warp_striped(x.type.shape[0], lanes, warps)
    counts = target.shuffles and target.ops.has(ops.thread.shared_ordered_inc)
    if layout is None or not counts:
        return [_by_sorting(b, x, op.result.type)]
    return [_by_counting(b, b.convert(x, layout), max(1, (op["bins"] - 1).bit_length()), target)]


def _by_sorting(b: LayoutBuilder, x: Value, result: Type) -> Value:
    """Sort pairs of an element and its index; the rank is the position to which the index moved."""
    x = b.convert(x, straight(layout_of(x), -1))
    bits = x.type.shape[0].bit_length() - 1
    pairs = (Expression(b, x) << bits) | Expression(b, indices_along(b, x, -1))
    ordered = sorted_integers(b, pairs.value, -1)
    index = (Expression(b, ordered) & (1 << bits) - 1).value
    buffer = _scattered(b, indices_along(b, ordered, -1), index, -1)
    return b(ops.shared.local_load, buffer, result=result)


def _by_counting(b: LayoutBuilder, x: Value, bits: int, target: SimtTarget) -> Value:
    """Return the ranks of a warp-striped tile."""
    lanes, warps = (1 << layout_of(x).in_bits(name) for name in (LANE, WARP))
    shared_bits = (x.type.shape[0] // warps).bit_length() - 1
    warp = Expression(b, indices_along(b, x, -1)) >> shared_bits
    cell = ((warp << bits) | Expression(b, x)).value
    # A thread has all warps of a bin.
    grid = blocked((warps, 1 << bits), (warps, 1), (1, lanes), (1, warps))
    line = Tile((warps << bits,), I32, reshape_axes(grid, [warps << bits]))
    counts = stored(b, b.constant(0, line))
    before = b(ops.shared.local_ordered_inc, counts, cell, bits=bits)
    table = b(shape.reshape, b(ops.shared.local_load, counts, result=line), shape=grid.shape)
    sums = b(shape.reshape, _first_ranks(b, table, target), shape=line.shape)
    first = b(ops.shared.local_gather, stored(b, sums), cell, axis=-1)
    return b(arith.add, first, before)


def _first_ranks(b: LayoutBuilder, table: Value, target: SimtTarget) -> Value:
    """Return the sum of what precedes each cell, in the order of bins, then of warps."""

    def sums(x: Value, axis: int) -> Value:
        inclusive = b.convert(running_sum_along(b, x, axis, target), layout_of(x))
        return b(arith.sub, inclusive, x)

    lesser = sums(sum_along(b, table, -2, target), -1)
    row = b(shape.expand_dims, lesser, axis=-2)
    layout = layout_of(table)
    spread = b(shape.broadcast, row, shape=table.type.shape, layout=layout)
    return b(arith.add, sums(table, -2), spread)
