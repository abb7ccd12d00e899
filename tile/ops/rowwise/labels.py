"""The classes of rows, which the losses of rows take."""

from __future__ import annotations

from typing import Any

from tile.ops.core.call import INDICES, Call, Operand


def labels_of(call: Call, target: Any, rows: int, classes: int, ignore_index: Any) -> Operand:
    """Return the class of each row, from 0 on; `ignore_index` stands for none.

    Raises `ArgumentError` for other arrays and values.
    """
    ignored = call.integer("ignore_index", ignore_index)
    (labels,) = call.vectors(rows, INDICES, target=target)
    return labels.within(0, classes, besides=ignored)
