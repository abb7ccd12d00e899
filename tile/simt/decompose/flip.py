"""Reversal of an axis."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops.layout import exchange
from tile.simt.target import SimtTarget


def flip(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Reverse an axis by one exchange.

    Element i becomes the element at extent - 1 - i, which is i XOR (extent - 1).
    """
    (x,), axis = op.inputs, op["axis"]
    return [b(exchange, x, axis=axis, mask=x.type.shape[axis] - 1)]
