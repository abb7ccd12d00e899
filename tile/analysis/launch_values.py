"""Values that are known before a kernel runs: its arguments, and constants."""

from __future__ import annotations

from tile.ir.core import Block, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.types import Scalar


def launch_value(value: Value) -> Value | int | None:
    """The argument of a kernel, or the integer, that a scalar is; None if it is neither.

    An argument may have been made wider, and there may be a promise about it.
    """
    while value.op is not None and (value.op.defn is arith.hint or _widens(value)):
        value = value.op.inputs[0]
    constant = constant_of(value)
    if isinstance(constant, int):
        return constant
    block = value.owner
    if not isinstance(block, Block) or block.owner is None or not block.owner.kernel:
        return None
    return value


def _widens(value: Value) -> bool:
    """Whether a value is a signed integer of fewer bits."""
    op, ty = value.op, value.type
    if op is None or op.defn is not arith.cast:
        return False
    before = op.inputs[0].type
    if not (isinstance(ty, Scalar) and isinstance(before, Scalar)):
        return False
    return before.is_int_signed() and ty.is_int_signed() and before.bits <= ty.bits
