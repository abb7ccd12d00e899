"""Canonicalization of shape operations: redundant ones, and operations on splats."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, memory, shape
from tile.ir.rewriter import Rewriter
from tile.ir.types import Tile
from tile.transforms.canonicalize.patterns import CANONICAL, constant, producer

SHAPE_OPS = (shape.broadcast, shape.expand_dims, shape.flip, shape.reshape, shape.trans)


@CANONICAL.simplification(shape.broadcast, shape.reshape)
def shape_op_to_same_shape(op: Operation, _: Rewriter) -> Value | None:
    x = op.inputs[0]
    return x if x.type == op.result.type else None


@CANONICAL.simplification(shape.trans)
def identity_trans(op: Operation, _: Rewriter) -> Value | None:
    order = op["order"]
    return op.inputs[0] if order == tuple(range(len(order))) else None


@CANONICAL.simplification(shape.flip)
def flip_of_flip(op: Operation, _: Rewriter) -> Value | None:
    inner = producer(op.inputs[0], shape.flip)
    return inner.inputs[0] if inner is not None and inner["axis"] == op["axis"] else None


@CANONICAL.simplification(shape.split)
def split_of_join(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    inner = producer(op.inputs[0], shape.join)
    return None if inner is None else inner.inputs


@CANONICAL.simplification(shape.join)
def join_of_split(op: Operation, _: Rewriter) -> Value | None:
    """Joining both results of a split, in order, returns its operand."""
    inner = producer(op.inputs[0], shape.split)
    return inner.inputs[0] if inner is not None and op.inputs == inner.results else None


@CANONICAL.simplification(shape.trans)
def trans_of_trans(op: Operation, rewriter: Rewriter) -> Value | None:
    inner = producer(op.inputs[0], shape.trans)
    if inner is None:
        return None
    order = tuple(inner["order"][axis] for axis in op["order"])
    return rewriter.build(op, shape.trans, inner.inputs[0], order=order)


@CANONICAL.simplification(shape.reshape, shape.broadcast)
def shape_op_of_its_like(op: Operation, rewriter: Rewriter) -> Value | None:
    """Combine two reshapes, or two broadcasts; an `expand_dims` is a reshape, too."""
    likes = (shape.expand_dims,) if op.defn is shape.reshape else ()
    inner = producer(op.inputs[0], op.defn, *likes)
    if inner is None:
        return None
    return rewriter.build(op, op.defn, inner.inputs[0], shape=op["shape"])


@CANONICAL.simplification(*SHAPE_OPS)
def shape_op_of_splat(op: Operation, rewriter: Rewriter) -> Value | None:
    """A shape operation on a splat is a splat of another shape."""
    source = producer(op.inputs[0], shape.splat, arith.const, arith.poison)
    if source is None:
        return None
    if source.defn is shape.splat:
        return rewriter.build(op, shape.splat, source.inputs[0], shape=op.result.type.shape)
    attributes = {**source.attributes, "result": op.result.type}
    return rewriter.build(op, source.defn, **attributes)


@CANONICAL.simplification(memory.addptr, where=lambda defn: defn.elementwise)
def elementwise_of_splats(op: Operation, rewriter: Rewriter) -> Value | None:
    """An elementwise operation on splats is a splat of the operation on the scalars."""
    ty = op.result.type
    splats = [producer(value, shape.splat, arith.const) for value in op.inputs]
    if not isinstance(ty, Tile) or None in splats:
        return None
    scalars = [_splat_scalar(value, op, rewriter) for value in op.inputs]
    value = rewriter.build(op, op.defn, *scalars, **op.attributes)
    return rewriter.build(op, shape.splat, value, shape=ty.shape)


def _splat_scalar(value: Value, op: Operation, rewriter: Rewriter) -> Value:
    assert value.op is not None
    number = constant_of(value)
    if number is None:
        return value.op.inputs[0]
    return constant(op, rewriter, number, value.type.element)
