"""The classes of rows, which the losses of rows take, in calls and in kernels."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import INDICES, Call, Operand


def labels_of(call: Call, target: Any, rows: int, classes: int, ignore_index: Any) -> Operand:
    """Return the class of each row, from 0 on; `ignore_index` stands for none.

    Raises `ArgumentError` for other arrays and values.
    """
    ignored = call.integer("ignore_index", ignore_index)
    (labels,) = call.vectors(rows, INDICES, target=target)
    return labels.within(0, classes, besides=ignored)


@tile.jit
def target_of(target_ptr, row, exists, classes, IGNORED: tl.constexpr):
    """Return the class of each row, and True for those that are not ignored."""
    target = tl.load(target_ptr + row, mask=exists, other=IGNORED)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    return target, used & exists
