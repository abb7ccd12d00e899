"""An axis cut into others, and the numbers along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.ir.core import Value
from tile.ir.ops import shape
from tile.simt.decompose.holding import line, straight
from tile.simt.layout_rules import LayoutBuilder, layout_of


def recut(
    b: LayoutBuilder, x: Value, axis: int, bits: Sequence[int], extents: Sequence[int]
) -> Value:
    """`x` with the elements along an axis in another order, and that axis cut into several.

    Bit k of the new order is bit `bits[k]` of the old one; `extents` are those of the new axes,
    the last of which counts fastest. No element moves: registers and lanes hold others by name.
    """
    position = len(x.type.shape) + axis
    before, after = x.type.shape[:position], x.type.shape[position + 1 :]
    runs = _runs(bits)
    if len(runs) > 1:
        pieces = sorted(runs, reverse=True)
        order = [pieces.index(run) + position for run in reversed(runs)]
        last = position + len(runs)
        x = b(shape.reshape, x, shape=(*before, *[1 << n for _, n in pieces], *after))
        rest = range(last, last + len(after))
        x = b(shape.trans, x, order=(*range(position), *order, *rest))
    wanted = (*before, *extents, *after)
    return x if x.type.shape == wanted else b(shape.reshape, x, shape=wanted)


def _runs(bits: Sequence[int]) -> list[tuple[int, int]]:
    """Bits that follow one another, as their lowest bit and their number."""
    runs: list[tuple[int, int]] = []
    for bit in bits:
        if runs and bit == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((bit, 1))
    return runs


def along(
    b: LayoutBuilder, like: Value, axis: int, change: Callable[[Value], Value] = lambda x: x
) -> Value:
    """A tile of the shape and layout of `like`, each element its number along an axis, in i32.

    `change` computes something else of the numbers, while they are a tile of rank 1.
    """
    wanted = layout_of(like)
    layout = straight(wanted, axis)
    extents = like.type.shape
    x = change(b(shape.arange, start=0, end=extents[axis], layout=line(layout, axis)))
    for _ in range(len(extents) + axis):
        x = b(shape.expand_dims, x, axis=-1 - x.type.rank)
    for _ in range(-axis - 1):
        x = b(shape.expand_dims, x, axis=-1)
    if x.type.shape != extents:
        x = b(shape.broadcast, x, shape=extents, layout=layout)
    return b.convert(x, wanted)
