"""Decompose `reduce`, `arg_reduce`, and `reduce_by` of any layout."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, combine
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import BF16, F16, F32, Scalar, Type
from tile.simt.decompose.axes import indices_along, permute_and_split
from tile.simt.decompose.holding import axis_owners, nearer, straight
from tile.simt.decompose.regions import Region, arg_region, clone_region, elementwise_region
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.target import SimtTarget

# Sums and products of these types are accumulated in f32.
_NARROW = (F16, BF16)
_ACCUMULATED = (ReduceKind.SUM, ReduceKind.PROD)


def accumulator(kind: ReduceKind, element: Type) -> Type:
    """Return the type in which elements are combined."""
    return F32 if kind in _ACCUMULATED and element in _NARROW else element


def cast(b: LayoutBuilder, x: Value, to: Type) -> Value:
    """Return the value cast to a type; the value itself if it has that type."""
    return x if x.type.element == to else b(arith.cast, x, to=to)


def reduce(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace a `reduce` by `reduce_by`, with a region in place of its kind."""
    (x,) = op.inputs
    element = accumulator(op["kind"], x.type.element)
    region = elementwise_region(op["kind"], element, op["propagate_nan"])
    (result,) = reduce_along(b, [cast(b, x, element)], op["axis"], region, target)
    return [cast(b, result, x.type.element)]


def arg_reduce(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace an `arg_reduce` by a `reduce_by` of pairs: an element and its index."""
    (x,), axis = op.inputs, op["axis"]
    assert isinstance(x.type.element, Scalar)
    region = arg_region(op["kind"], x.type.element, op["tie_break_left"])
    x = b.convert(x, straight(layout_of(x), axis))
    return reduce_along(b, [x, indices_along(b, x, axis)], axis, region, target)


def reduce_by(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value] | None:
    """Decompose a `reduce_by`; None for one that a warp can do."""
    axis, layout = op["axis"], layout_of(op.inputs[0])
    if straight(layout, axis) == layout and not axis_owners(layout, axis).far(target.shuffles):
        return None
    return reduce_along(b, op.inputs, axis, clone_region(op.regions[0]), target)


def reduce_along(
    b: LayoutBuilder, xs: Sequence[Value], axis: int, region: Region, target: SimtTarget
) -> list[Value]:
    """Combine the elements of tiles along an axis.

    Each warp combines along the near bits. The few partial results go to every thread that needs
    the result, and each of these combines them.
    """
    plain = straight(layout_of(xs[0]), axis)
    return _reduce([b.convert(x, plain) for x in xs], axis, region, b, target)


def _reduce(
    xs: Sequence[Value], axis: int, region: Region, b: LayoutBuilder, target: SimtTarget
) -> list[Value]:
    owners = axis_owners(layout_of(xs[0]), axis)
    near, far = owners.near(target.shuffles), owners.far(target.shuffles)
    if not far:
        return b.op(combine.reduce_by, *xs, axis=axis, regions=[region()]).results
    if near:
        cut = 1 << len(far), 1 << len(near)
        xs = [permute_and_split(b, x, axis, (*near, *far), cut) for x in xs]
        xs = b.op(combine.reduce_by, *xs, axis=axis, regions=[region()]).results
    gathered = nearer(layout_of(xs[0]), axis, target.shuffles)
    return _reduce([b.convert(x, gathered) for x in xs], axis, region, b, target)
