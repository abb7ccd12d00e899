"""The arguments that shift convolution and its gradients share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import I32, Call
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.reference import Array

RUNS = (1, 2, 4, 8, 16)


def check_shifts(
    call: Call,
    shift_h: Any,
    shift_w: Any,
    size: tuple[int, int],
    channels: int,
    run: int,
    precision: str,
) -> None:
    """Raise `ArgumentError` unless each channel has a shift of at most the height and width."""
    call.choice("run", run, RUNS)
    if channels % run:
        raise ArgumentValueError(
            f"{call.op}: `run` is {run}; it must divide the number of channels, {channels}"
        )
    for name, array, limit in (("shift_h", shift_h, size[0]), ("shift_w", shift_w, size[1])):
        shift = call.array(name, array, dtypes=(I32,), rank=1, shape=(channels,)).contiguous()
        shift.within(-limit, limit + 1)
        if shift.host is not None and not _in_runs(shift.host, run):
            raise ArgumentValueError(
                f"{call.op}: `{name}` has groups of `run` = {run} channels with several shifts"
            )
    call.choice("precision", precision, PRECISIONS)


def _in_runs(shift: Array, run: int) -> bool:
    """Return True if each group of `run` elements has one value."""
    return bool((shift == np.repeat(shift[::run], run)).all())


def shifted(x: Array, shift_h: Array, shift_w: Array) -> Array:
    """Return an image whose channels are read from below and from the right, 0 outside."""
    height, width = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (height, height), (width, width), (0, 0)))
    result = np.empty_like(x)
    for channel, (down, right) in enumerate(zip(shift_h, shift_w, strict=True)):
        rows = slice(height + down, 2 * height + down)
        columns = slice(width + right, 2 * width + right)
        result[..., channel] = padded[:, rows, columns, channel]
    return result
