"""Detection of integer overflow: exact arithmetic on 64-bit arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tile.ir.core import Operation
from tile.ir.numpy_dtypes import Array
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.types import Scalar

# The greatest width whose exact results fit in 64 bits.
NARROW_BITS = 32


def _quotient(x: Array, y: Array) -> Array:
    """Return the quotient truncated toward zero; 0 for a zero divisor, which is undefined."""
    zero = y == 0
    magnitude = np.abs(x) // np.where(zero, 1, np.abs(y))
    quotient: Array = np.where(zero, 0, np.where((x < 0) == (y < 0), magnitude, -magnitude))
    return quotient


# Elementwise operations whose result may not fit the type of their operands.
EXACT_FUNCTIONS: dict[OpDef, Callable[..., Array]] = {
    arith.add: np.add,
    arith.sub: np.subtract,
    arith.mul: np.multiply,
    arith.div: _quotient,
    arith.neg: np.negative,
    math.abs_: np.abs,
    arith.shl: lambda x, y: x << np.clip(y, 0, 31),
}


def narrow_signed(op: Operation) -> Scalar | None:
    """Return the element type of the first result if it is a signed integer of up to 32 bits."""
    element = op.results[0].type.element if op.results else None
    if not isinstance(element, Scalar) or not element.is_int_signed():
        return None
    return element if element.bits <= NARROW_BITS else None


def overflows(op: Operation, operands: Sequence[Array]) -> bool:
    """Return True if an elementwise operation on signed integers wraps on these operands."""
    element = narrow_signed(op)
    if element is None or op.defn not in EXACT_FUNCTIONS:
        return False
    exact = EXACT_FUNCTIONS[op.defn](*(operand.astype(np.int64) for operand in operands))
    return bool(((exact < element.min_value) | (exact > element.max_value)).any())
