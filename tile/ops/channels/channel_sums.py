"""Sums of each channel of an array, batch x channels x elements.

    sums[c] = sum over n, i of x[n, c, i]        and of x[n, c, i] * normal[n, c, i]

A program has a block of channels and a part of their elements, over which it iterates. Lanes lie
along the axis that is contiguous: channels, or elements where the channels are planes. Sums of
parts are rows of a matrix, whose columns `column_sums` adds up in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.channels.views import channels_of, items_of
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen


@tile.jit
def channel_sums_kernel(
    dy_ptr,
    x_ptr,
    mean_ptr,
    variance_ptr,
    sums_ptr,
    normal_sums_ptr,
    dy_strides,
    x_strides,
    channels,
    batches,
    length,
    steps,
    span,
    groups,
    per_group,
    EPS: tl.constexpr,
    ACROSS: tl.constexpr,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sums = widen(tl.zeros((ITEMS, BLOCK), dy_ptr.dtype.element_ty))
    by_normal = sums
    if x_ptr is not None:
        # With groups, a part is one image of the batch.
        at = part * groups + column // per_group
        mean = tl.load(mean_ptr + at, mask=column < channels, other=0.0)
        variance = tl.load(variance_ptr + at, mask=column < channels, other=0.0)
        rstd = 1.0 / tl.sqrt(variance + EPS)
    for step in range(part * span, min(steps, (part + 1) * span)):
        number, item, exists = items_of(step, batches, length, ACROSS, ITEMS)
        n, i = number.to(tl.int64), item.to(tl.int64)
        inside = exists & (column < channels)
        at = n * dy_strides[0] + column * dy_strides[1] + i * dy_strides[2]
        dy = widen(tl.load(dy_ptr + at, mask=inside, other=0.0))
        sums += dy
        if x_ptr is not None:
            at = n * x_strides[0] + column * x_strides[1] + i * x_strides[2]
            x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
            by_normal += dy * ((x - mean) * rstd)
    at = part.to(tl.int64) * channels + column
    tl.store(sums_ptr + at, tl.sum(sums, axis=0, keep_dims=True), mask=column < channels)
    if x_ptr is not None:
        by_normal = tl.sum(by_normal, axis=0, keep_dims=True)
        tl.store(normal_sums_ptr + at, by_normal, mask=column < channels)


def channel_sums(x: Any, axis: int = 1, dtype: str | None = None) -> Any:
    """Return the sums of all elements of each channel of `x`.

    axis: that of channels, 1 or -1. dtype: of the result; by default float32, or float64 for that.
    """
    call = Call("channel_sums")
    source = call.array("x", x)
    view = channels_of(source, axis).over_batch()
    batches, channels, length = view.shape
    kind = accumulator(source.dtype)
    result = call.new((channels,), kind if dtype is None else np.dtype(dtype))
    if not channels:
        return result.value
    span, count = view.parts()
    items, block = view.tile
    parts = call.new((count, channels), kind)
    if parts.size:
        launch(channel_sums_kernel, (tile.cdiv(channels, block), parts.shape[0]))(
            *(x, None, None, None, parts.value, None, view.strides, view.strides),
            *(channels, batches, length, view.steps, span, 0, 1),
            EPS=0.0,
            ACROSS=view.channels_last,
            ITEMS=items,
            BLOCK=block,
        )
    column_sums(parts, result)
    return result.value
