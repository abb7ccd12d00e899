"""Split a conversion into two of half the size, one after the other, to halve its shared memory.

A bit of the coordinates that registers hold both before and after moves nothing between threads.
It becomes an axis of its own, and the two half tiles that it distinguishes are converted
separately; everything else is relabeling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tile.ir.core import Operation
from tile.ir.ops import shape
from tile.ir.types import with_layout
from tile.simt.layout_rules import LayoutBuilder, layout_of, parted
from tile.simt.layouts.axes import permute_axes, reshape_axes
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.layout import convert_layout


@dataclass(frozen=True)
class Cut:
    """A split of a tile: reshaped to `extents`, whose axes in `order` end with the split one.

    `half` is the layout of each half tile after the conversion.
    """

    extents: tuple[int, ...]
    order: tuple[int, ...]
    half: LinearLayout


@lru_cache(maxsize=1024)
def find_cut(src: LinearLayout, dst: LinearLayout) -> Cut | None:
    """Return a split whose half tiles stay in their threads; None if there is none."""
    common = {*src.images(REGISTER)} & {*dst.images(REGISTER)}
    for column in sorted(common, reverse=True):
        if column & (column - 1) == 0:
            extents, axis = _cut_at(src.shape, column.bit_length() - 1)
            order = (*(a for a in range(len(extents)) if a != axis), axis)
            halves = [parted(_seen(layout, extents, order)) for layout in (src, dst)]
            if halves[0] is not None and halves[1] is not None:
                return Cut(extents, order, halves[1])
    return None


def _cut_at(shape: tuple[int, ...], bit: int) -> tuple[tuple[int, ...], int]:
    """Return a shape with one bit of the linearized coordinates as an axis; and that axis."""
    axis = len(shape) - 1
    while bit >= shape[axis].bit_length() - 1:
        bit -= shape[axis].bit_length() - 1
        axis -= 1
    low = 1 << bit
    return (*shape[:axis], shape[axis] // (2 * low), 2, low, *shape[axis + 1 :]), axis + 1


def _seen(layout: LinearLayout, extents: tuple[int, ...], order: tuple[int, ...]) -> LinearLayout:
    return permute_axes(reshape_axes(layout, extents), order)


def halve(op: Operation, cut: Cut) -> list[Operation]:
    """Replace a conversion by those of its half tiles."""
    (value,) = op.inputs
    build = LayoutBuilder.before(op)
    seen = build(shape.trans, build(shape.reshape, value, shape=cut.extents), order=cut.order)
    parts = build.op(shape.split, seen).results
    halves = [
        build.op(convert_layout, part, result=with_layout(part.type, cut.half)) for part in parts
    ]
    pairs = build(shape.join, *(half.result for half in halves))
    back = tuple(cut.order.index(axis) for axis in range(len(cut.order)))
    whole = build(shape.reshape, build(shape.trans, pairs, order=back), shape=value.type.shape)
    op.replace_by([build.convert(whole, layout_of(op.result))])
    return halves
