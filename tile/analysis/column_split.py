"""Splits of a tile's columns into two sub-tiles, which kernels write as three operations.

%y = reshape %x {shape = (128, 2, 128)} : tile<128x2x128xf32>      // %x : tile<128x256xf32>
%z = trans %y {order = (0, 2, 1)} : tile<128x128x2xf32>
%low, %high = split %z : tile<128x128xf32>, tile<128x128xf32>
"""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import shape


def column_split(op: Operation) -> tuple[Value, Value] | None:
    """Return the sub-tiles of a split of columns that an operation begins, or None."""
    if op.defn is not shape.reshape:
        return None
    *outer, columns = op.inputs[0].type.shape
    rank = len(outer)
    trans = _only_user(op, shape.trans)
    split = None if trans is None else _only_user(trans, shape.split)
    if (
        trans is None
        or split is None
        or tuple(op.result.type.shape) != (*outer, 2, columns // 2)
        or tuple(trans["order"]) != (*range(rank), rank + 1, rank)
    ):
        return None
    low, high = split.results
    return low, high


def _only_user(op: Operation, defn: OpDef) -> Operation | None:
    """Return the only operation that uses a result, once; None if it is of another kind."""
    users = [user for user, _ in op.result.uses]
    return users[0] if len(users) == 1 and users[0].defn is defn else None
