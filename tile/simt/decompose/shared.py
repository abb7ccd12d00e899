"""Operations in which a value says where an element is: through shared memory."""

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
    """All of the tile goes to a buffer, from which each thread takes what it wants."""
    x, index = op.inputs
    held = _buffer(b, x.type)
    b.op(ops.shared.local_store, held, x)
    return [b(ops.shared.local_gather, held, index, axis=op["axis"])]


def histogram(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Counts are in a buffer of zeros, where all threads add to them."""
    x, bins = op.inputs[0], op["bins"]
    held = _buffer(b, op.result.type)
    b.op(ops.shared.local_store, held, b.constant(0, op.result.type))
    mask = _counted(b, x, op["mask"], bins)
    index = x if x.type.element == I32 else b(arith.cast, x, to=I32)
    b.op(ops.shared.local_count, held, index, mask)
    return [b(ops.shared.local_load, held, result=op.result.type)]


def _buffer(b: LayoutBuilder, ty: Type) -> Value:
    """A buffer for a tile, in row-major order."""
    layout = swizzled(ty.shape, vector=1, per_phase=1, max_phase=1)
    return b(ops.shared.alloc, result=Shared(ty.shape, ty.element, layout))


def _counted(b: LayoutBuilder, x: Value, mask: Value | None, bins: int) -> Value:
    """Which numbers are in a bin; those of a narrow type may not be able to miss them."""
    element = x.type.element
    assert isinstance(element, Scalar)
    bounds = []
    if element.signed:
        bounds.append((Predicate.GE, 0))
    if bins <= element.max_value:
        bounds.append((Predicate.LT, bins))
    found = [] if mask is None else [mask]
    found += [b(arith.cmp, x, b.constant(n, x.type), predicate=p) for p, n in bounds]
    if not found:
        return b.constant(True, with_element(x.type, I1))
    both, *more = found
    for other in more:
        both = b(arith.and_, both, other)
    return both
