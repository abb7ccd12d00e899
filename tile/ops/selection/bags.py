"""The arguments that sums of bags of rows and their gradient share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import INDICES, Call, Operand

BLOCK = 256  # columns of a program at most
MODES = ("sum", "mean", "max")


def index_count(call: Call) -> int:
    """Return the number of indices."""
    return next(operand.size for operand in call.operands if operand.name == "indices")


def bags_of(
    call: Call, indices: Any, starts: Any, mode: str, scales: Any, like: Operand, rows: int
) -> int:
    """Return the number of bags, or raise `ArgumentError`."""
    call.choice("mode", mode, MODES)
    chosen = call.array("indices", indices, dtypes=INDICES, rank=1).contiguous().within(0, rows)
    first = call.array("starts", starts, dtypes=(chosen.dtype,), rank=1).contiguous()
    if not first.size:
        raise ArgumentValueError(f"{call.op}: `starts` has no elements; the last one is the end")
    if scales is not None:
        if mode != "sum":
            raise ArgumentValueError(f"{call.op}: `scales` are for the mode 'sum', not {mode!r}")
        call.vectors(chosen.size, (like.dtype,), scales=scales)
    steps = first.host
    if steps is not None:
        ends = steps[0] == 0 and steps[-1] == chosen.size
        if not ends or (np.diff(steps) < 0).any():
            raise ArgumentValueError(
                f"{call.op}: `starts` is {steps.tolist()}; it must start with 0, not decrease, and "
                f"end with the number of indices, {chosen.size}"
            )
    return first.size - 1
