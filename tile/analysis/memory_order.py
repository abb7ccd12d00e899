"""The axis along which a loaded tile is contiguous in memory."""

from __future__ import annotations

from tile.analysis.axis_info import AxisInfoResult
from tile.ir.core import Value
from tile.ir.ops import memory, shape


def contiguous_axis(value: Value, axes: AxisInfoResult) -> int | None:
    """Return the axis, counted from the right, along which a tile is contiguous in memory.

    None for a tile that is not a relabeled load, and where no axis is more contiguous than others.
    """
    op = value.op
    if op is None:
        return None
    if op.defn is shape.trans:
        axis = contiguous_axis(op.inputs[0], axes)
        order = op["order"]
        return None if axis is None else order.index(len(order) + axis) - len(order)
    if op.defn is shape.reshape:
        axis, source = contiguous_axis(op.inputs[0], axes), op.inputs[0].type.shape
        # What follows the axis has the same extents.
        same = axis is not None and source[axis:][1:] == value.type.shape[axis:][1:]
        return axis if same else None
    if op.defn is not memory.load or not value.type.rank:
        return None
    runs = axes.of(op["ptr"]).contiguous
    longest = max(runs)
    return runs.index(longest) - len(runs) if runs.count(longest) == 1 else None
