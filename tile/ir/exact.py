"""Integer arithmetic as if it did not wrap, on arrays of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tile.ir.core import Operation
from tile.ir.dtypes import Array
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, math
from tile.ir.types import Scalar

# The greatest width of arithmetic whose exact results 64 bits hold.
NARROW_BITS = 32


def _quotient(x: Array, y: Array) -> Array:
    """The quotient towards zero; by zero, which is undefined, 0."""
    zero = y == 0
    magnitude = np.abs(x) // np.where(zero, 1, np.abs(y))
    quotient: Array = np.where(zero, 0, np.where((x < 0) == (y < 0), magnitude, -magnitude))
    return quotient


# Elementwise operations whose result may not fit the type of their operands.
EXACT: dict[OpDef, Callable[..., Array]] = {
    arith.add: np.add,
    arith.sub: np.subtract,
    arith.mul: np.multiply,
    arith.div: _quotient,
    arith.neg: np.negative,
    math.abs_: np.abs,
    arith.shl: lambda x, y: x << np.clip(y, 0, 31),
}


def narrow_signed(op: Operation) -> Scalar | None:
    """The element type of the first result if it is a signed integer of up to 32 bits."""
    element = op.results[0].type.element if op.results else None
    if not isinstance(element, Scalar) or not element.is_int_signed():
        return None
    return element if element.bits <= NARROW_BITS else None


def wraps(op: Operation, operands: Sequence[Array]) -> bool:
    """Return True if an elementwise operation of signed integers wraps on these operands."""
    element = narrow_signed(op)
    if element is None or op.defn not in EXACT:
        return False
    exact = EXACT[op.defn](*(operand.astype(np.int64) for operand in operands))
    return bool(((exact < element.min_value) | (exact > element.max_value)).any())
