"""Canonicalization of pointer arithmetic, masks and loads."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, debug, memory, shape
from tile.ir.rewriter import Rewriter
from tile.ir.types import I64, Type, number_of, with_element
from tile.transforms.canonicalize.patterns import CANONICAL, constant, producer


@CANONICAL.simplification(memory.addptr)
def zero_offset(op: Operation, _: Rewriter) -> Value | None:
    pointer, offset = op.inputs
    return pointer if constant_of(offset) == 0 else None


@CANONICAL.simplification(memory.addptr)
def addptr_of_addptr(op: Operation, rewriter: Rewriter) -> Value | None:
    """Combine constant offsets."""
    pointer, offset = op.inputs
    inner, second = producer(pointer, memory.addptr), constant_of(offset)
    first = None if inner is None else constant_of(inner.inputs[1])
    if inner is None or first is None or second is None:
        return None
    total = int(first) + int(second)
    ty = _fitting(offset.type, total)
    if ty is None:
        return None
    joined = constant(op, rewriter, total, ty)
    return rewriter.build(op, memory.addptr, inner.inputs[0], joined, stride=op["stride"])


def _fitting(ty: Type, number: int) -> Type | None:
    """Return the type if it holds the number, else its 64-bit version if that does, else None."""
    for candidate in (ty, with_element(ty, I64)):
        element = number_of(candidate)
        if element.min_value <= number <= element.max_value:
            return candidate
    return None


@CANONICAL.pattern(memory.load, memory.store, memory.atomic_rmw, debug.device_assert)
def true_mask(op: Operation, rewriter: Rewriter) -> bool:
    mask = op["mask"]
    if mask is None or constant_of(mask) is not True:
        return False
    for index in range(op.defn.positions["mask"], len(op.operands)):
        if op.operands[index] is not None:  # the mask, and a load's `other`
            rewriter.set_operand(op, index, None)
    return True


def _is_masked_off(op: Operation) -> bool:
    return op["mask"] is not None and constant_of(op["mask"]) is False


@CANONICAL.simplification(memory.store, debug.device_assert)
def false_mask(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    return () if _is_masked_off(op) else None


@CANONICAL.simplification(memory.load)
def load_with_false_mask(op: Operation, rewriter: Rewriter) -> Value | None:
    if not _is_masked_off(op):
        return None
    other: Value | None = op["other"]
    return other or rewriter.build(op, arith.poison, result=op.result.type)


@CANONICAL.simplification(debug.device_assert, debug.assume)
def true_condition(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    return () if constant_of(op.inputs[0]) is True else None


@CANONICAL.simplification(arith.select)
def select_of_load(op: Operation, rewriter: Rewriter) -> Value | None:
    """`select(m, load(p, m), x)` is `load(p, m, x)`, if `x` is available at the load."""
    condition, loaded, other = op.inputs
    load = producer(loaded, memory.load)
    if load is None or load["mask"] is not condition or len(loaded.uses) > 1:
        return None
    available = _available(other, load, rewriter)
    if available is None:
        return None
    rewriter.set_operand(load, load.defn.positions["other"], available)
    return loaded


def _available(value: Value, op: Operation, rewriter: Rewriter) -> Value | None:
    """Return the value if it is available at `op`, or a copy of a splat there, else None."""
    if value.dominates(op):
        return value
    source = producer(value, arith.const, shape.splat)
    if source is None or not all(operand.dominates(op) for operand in source.inputs):
        return None
    return rewriter.build(op, source.defn, *source.inputs, **source.attributes)
