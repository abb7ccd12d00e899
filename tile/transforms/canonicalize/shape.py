"""Canonicalization of shape operations: redundant ones, and operations on splats."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, memory, shape
from tile.ir.rewriter import Rewriter
from tile.ir.types import Tile
from tile.transforms.canonicalize.patterns import CANONICAL, constant

SHAPE_OPS = (shape.broadcast, shape.expand_dims, shape.flip, shape.reshape, shape.trans)


@CANONICAL.pattern(shape.broadcast, shape.reshape)
def shape_op_to_same_shape(op: Operation, rewriter: Rewriter) -> bool:
    x = op.inputs[0]
    if x.type != op.result.type:
        return False
    rewriter.replace(op, [x])
    return True


@CANONICAL.pattern(shape.trans)
def identity_trans(op: Operation, rewriter: Rewriter) -> bool:
    order = op["order"]
    if order != tuple(range(len(order))):
        return False
    rewriter.replace(op, op.inputs)
    return True


@CANONICAL.pattern(shape.flip)
def flip_of_flip(op: Operation, rewriter: Rewriter) -> bool:
    inner = op.inputs[0].op
    if inner is None or inner.defn is not shape.flip or inner["axis"] != op["axis"]:
        return False
    rewriter.replace(op, inner.inputs)
    return True


@CANONICAL.pattern(shape.split)
def split_of_join(op: Operation, rewriter: Rewriter) -> bool:
    inner = op.inputs[0].op
    if inner is None or inner.defn is not shape.join:
        return False
    rewriter.replace(op, inner.inputs)
    return True


@CANONICAL.pattern(shape.join)
def join_of_split(op: Operation, rewriter: Rewriter) -> bool:
    """Joining both results of a split, in order, returns its operand."""
    inner = op.inputs[0].op
    if inner is None or inner.defn is not shape.split or op.inputs != inner.results:
        return False
    rewriter.replace(op, inner.inputs)
    return True


@CANONICAL.pattern(shape.trans)
def trans_of_trans(op: Operation, rewriter: Rewriter) -> bool:
    inner = op.inputs[0].op
    if inner is None or inner.defn is not shape.trans:
        return False
    order = tuple(inner["order"][axis] for axis in op["order"])
    rewriter.replace(op, [rewriter.build(op, shape.trans, inner.inputs[0], order=order)])
    return True


@CANONICAL.pattern(shape.reshape)
def reshape_of_reshape(op: Operation, rewriter: Rewriter) -> bool:
    """Combine reshapes; an `expand_dims` is a reshape, too."""
    inner = op.inputs[0].op
    if inner is None or inner.defn not in (shape.reshape, shape.expand_dims):
        return False
    value = rewriter.build(op, shape.reshape, inner.inputs[0], shape=op["shape"])
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(shape.broadcast)
def broadcast_of_broadcast(op: Operation, rewriter: Rewriter) -> bool:
    inner = op.inputs[0].op
    if inner is None or inner.defn is not shape.broadcast:
        return False
    value = rewriter.build(op, shape.broadcast, inner.inputs[0], shape=op["shape"])
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(*SHAPE_OPS)
def shape_op_of_splat(op: Operation, rewriter: Rewriter) -> bool:
    """A shape operation on a splat is a splat of another shape."""
    source = op.inputs[0].op
    if source is None or source.defn not in (shape.splat, arith.const, arith.poison):
        return False
    if source.defn is shape.splat:
        dims = op.result.type.shape
        value = rewriter.build(op, shape.splat, source.inputs[0], shape=dims)
    else:
        attributes = {**source.attributes, "result": op.result.type}
        value = rewriter.build(op, source.defn, **attributes)
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(memory.addptr, where=lambda defn: defn.elementwise)
def elementwise_of_splats(op: Operation, rewriter: Rewriter) -> bool:
    """An elementwise operation on splats is a splat of the operation on the scalars."""
    ty = op.result.type
    if not isinstance(ty, Tile) or not all(map(_is_splat, op.inputs)):
        return False
    scalars = [_splat_scalar(value, op, rewriter) for value in op.inputs]
    value = rewriter.build(op, op.defn, *scalars, **op.attributes)
    rewriter.replace(op, [rewriter.build(op, shape.splat, value, shape=ty.shape)])
    return True


def _is_splat(value: Value) -> bool:
    return value.op is not None and value.op.defn in (shape.splat, arith.const)


def _splat_scalar(value: Value, op: Operation, rewriter: Rewriter) -> Value:
    assert value.op is not None
    number = constant_of(value)
    if number is None:
        return value.op.inputs[0]
    return constant(op, rewriter, number, value.type.element)
