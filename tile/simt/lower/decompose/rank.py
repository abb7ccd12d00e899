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
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LANE, REGISTER, WARP, bits_of
from tile.simt.layouts.f2 import units
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.swizzle import swizzled
from tile.simt.lower.decompose.axis_split import indices_along, straight
from tile.simt.lower.decompose.indexing import sorted_integers, stored
from tile.simt.lower.decompose.reduce import running_sum_along, sum_along
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import SimtTarget


def scatter(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Store the elements at their positions in a buffer, and load it."""
    x, index = op.inputs
    return [_scattered(b, x, b.convert(index, layout_of(x)), op["axis"], op.result.type)]


def _scattered(b: LayoutBuilder, x: Value, index: Value, axis: int, result: Type) -> Value:
    layout = swizzled(x.type.shape, vector=1, per_phase=1, max_phase=1)
    buffer = b(ops.shared.local_alloc, result=Shared(x.type.shape, x.type.element, layout))
    b.op(ops.shared.local_scatter, buffer, x, index, axis=axis)
    return b(ops.shared.local_load, buffer, result=result)


def rank(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Count by warps, or sort where warps cannot count or would have copies of elements."""
    (x,) = op.inputs
    layout = _in_warp_order(layout_of(x))
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
    return _scattered(b, indices_along(b, ordered, -1), index, -1, result)


def _in_warp_order(layout: LinearLayout) -> LinearLayout | None:
    """Return the layout of the same tile in the order of warps, registers, lanes, highest first.

    None if it would not divide the elements among all threads.
    """
    bits = bits_of(layout.outs)
    lanes, warps = layout.in_bits(LANE), layout.in_bits(WARP)
    registers = bits - lanes - warps
    if registers < 0:
        return None
    columns = units(bits)
    ins = (
        (REGISTER, tuple(columns[lanes : lanes + registers])),
        (LANE, tuple(columns[:lanes])),
        (WARP, tuple(columns[lanes + registers :])),
    )
    return LinearLayout(ins, layout.outs)


def _by_counting(b: LayoutBuilder, x: Value, bits: int, target: SimtTarget) -> Value:
    """Return the ranks of a tile whose layout has the order of warps, registers, and lanes."""
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
