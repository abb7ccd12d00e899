"""Split an axis into others, and make the indices along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.ir.core import Value
from tile.ir.ops import shape
from tile.simt.decompose.holding import line, straight
from tile.simt.layout_rules import LayoutBuilder, layout_of


def permute_and_split(
    b: LayoutBuilder, x: Value, axis: int, bits: Sequence[int], extents: Sequence[int]
) -> Value:
    """Return `x` with the elements along an axis permuted, and that axis split into several.

    bits: bit k of the new index is bit `bits[k]` of the old one.
    extents: the extents of the new axes, of which the last varies fastest.
    No element moves between registers or lanes; only its index changes.
    """
    position = len(x.type.shape) + axis
    before, after = x.type.shape[:position], x.type.shape[position + 1 :]
    runs = _runs(bits)
    if len(runs) > 1:
        fields = sorted(runs, reverse=True)
        order = [fields.index(run) + position for run in reversed(runs)]
        last = position + len(runs)
        x = b(shape.reshape, x, shape=(*before, *[1 << n for _, n in fields], *after))
        rest = range(last, last + len(after))
        x = b(shape.trans, x, order=(*range(position), *order, *rest))
    result_shape = (*before, *extents, *after)
    return x if x.type.shape == result_shape else b(shape.reshape, x, shape=result_shape)


def _runs(bits: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive bits, each as its lowest bit and its length."""
    runs: list[tuple[int, int]] = []
    for bit in bits:
        if runs and bit == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((bit, 1))
    return runs


def indices_along(
    b: LayoutBuilder, like: Value, axis: int, change: Callable[[Value], Value] = lambda x: x
) -> Value:
    """Return a tile of the shape and layout of `like` with the i32 indices along an axis.

    change: maps the indices to other values, while they are a tile of rank 1.
    """
    result_layout = layout_of(like)
    layout = straight(result_layout, axis)
    extents = like.type.shape
    x = change(b(shape.arange, start=0, end=extents[axis], layout=line(layout, axis)))
    for _ in range(len(extents) + axis):
        x = b(shape.expand_dims, x, axis=-1 - x.type.rank)
    for _ in range(-axis - 1):
        x = b(shape.expand_dims, x, axis=-1)
    if x.type.shape != extents:
        x = b(shape.broadcast, x, shape=extents, layout=layout)
    return b.convert(x, result_layout)
