"""Decompose `gather` and `histogram`, whose indices are data, by way of shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, I32, Scalar, Shared, Type, with_element
from tile.simt import ops
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.swizzle import swizzled
from tile.simt.target import SimtTarget


def gather(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Store the tile to a buffer, from which each thread gathers."""
    x, index = op.inputs
    buffer = _buffer(b, x.type)
    b.op(ops.shared.local_store, buffer, x)
    return [b(ops.shared.local_gather, buffer, index, axis=op["axis"])]


def histogram(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Count in a buffer of zeros, to which all threads add atomically."""
    x, bins = op.inputs[0], op["bins"]
    buffer = _buffer(b, op.result.type)
    b.op(ops.shared.local_store, buffer, b.constant(0, op.result.type))
    mask = _in_range(b, x, op["mask"], bins)
    index = x if x.type.element == I32 else b(arith.cast, x, to=I32)
    b.op(ops.shared.local_count, buffer, index, mask)
    return [b(ops.shared.local_load, buffer, result=op.result.type)]


def _buffer(b: LayoutBuilder, ty: Type) -> Value:
    """Return a buffer for a tile, in row-major order."""
    layout = swizzled(ty.shape, vector=1, per_phase=1, max_phase=1)
    return b(ops.shared.alloc, result=Shared(ty.shape, ty.element, layout))


def _in_range(b: LayoutBuilder, x: Value, mask: Value | None, bins: int) -> Value:
    """Return the mask of the values that have a bin.

    Bounds that the element type cannot exceed are not compared with.
    """
    element = x.type.element
    assert isinstance(element, Scalar)
    bounds = []
    if element.signed:
        bounds.append((Predicate.GE, 0))
    if bins <= element.max_value:
        bounds.append((Predicate.LT, bins))
    conditions = [] if mask is None else [mask]
    conditions += [b(arith.cmp, x, b.constant(n, x.type), predicate=p) for p, n in bounds]
    if not conditions:
        return b.constant(True, with_element(x.type, I1))
    mask, *more = conditions
    for other in more:
        mask = b(arith.and_, mask, other)
    return mask
