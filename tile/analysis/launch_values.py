"""Values that are known at launch: a kernel's arguments, and constants."""

from __future__ import annotations

from tile.ir.core import Block, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.types import Scalar


def launch_value(value: Value) -> Value | int | None:
    """Return the kernel argument or integer constant that a scalar equals, or None.

    Looks through sign extensions and hints.
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
    """Return True if a value is a sign extension (or a cast of the same width)."""
    op, ty = value.op, value.type
    if op is None or op.defn is not arith.cast:
        return False
    before = op.inputs[0].type
    if not (isinstance(ty, Scalar) and isinstance(before, Scalar)):
        return False
    return before.is_int_signed() and ty.is_int_signed() and before.bits <= ty.bits
