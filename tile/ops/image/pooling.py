"""Maxima and means of windows that move over images with channels last.

    max_pool2d: out[n, p, q, c] = max over r, s of x[n, p * stride - padding + r, ..., c]
    avg_pool2d: the same with the mean; pixels in the padding count as zeros

A program has some pixels of the result and a block of channels, and iterates over the window. The
padding of a maximum is -inf. NaN in a window gives NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.image.windows import Window, edges_of, pair, window_counts, windows_of

PIXELS = 8  # of a program
MOST_CHANNELS = 128


@tile.jit
def pool_kernel(
    x_ptr,
    out_ptr,
    x_strides,
    out_strides,
    sizes,
    pixels,
    channels,
    step,
    first,
    R: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    n = (pixel // (out_height * out_width)).to(tl.int64)
    p, q = pixel // out_width % out_height, pixel % out_width
    exists = (pixel < pixels) & (channel < channels)
    nothing = 0.0 if MEAN else -float("inf")
    total = widen(tl.full((PIXELS, BLOCK), nothing, x_ptr.dtype.element_ty))
    for position in range(R * S):
        h = p * step[0] + first[0] + position // S
        w = q * step[1] + first[1] + position % S
        inside = exists & (h >= 0) & (h < height) & (w >= 0) & (w < width)
        at = n * x_strides[0] + h.to(tl.int64) * x_strides[1] + w * x_strides[2]
        x = widen(tl.load(x_ptr + at + channel * x_strides[3], mask=inside, other=nothing))
        if MEAN:
            total += x
        else:
            total = tl.maximum(total, x, propagate_nan=tl.PropagateNan.ALL)
    if MEAN:
        total = total / (R * S)
    at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2] + channel * out_strides[3]
    tl.store(out_ptr + at, total, mask=exists)


def max_pool2d(
    x: Any, window: Window, stride: Window, padding: Window = 0, *, out: Any = None
) -> Any:
    """Return the maxima of windows, batch x P x Q x channels, in the type of `x`.

    x: batch x height x width x channels, of any strides. window, stride, padding: of height and
    width, or of both; the padding is at most half of the window.
    """
    return _pool("max_pool2d", False, x, window, stride, padding, out)


def avg_pool2d(
    x: Any, window: Window, stride: Window, padding: Window = 0, *, out: Any = None
) -> Any:
    """Return the means of windows, batch x P x Q x channels, in the type of `x`.

    x: batch x height x width x channels, of any strides. window, stride, padding: of height and
    width, or of both; the padding is at most half of the window and counts as zeros.
    """
    return _pool("avg_pool2d", True, x, window, stride, padding, out)


def _pool(
    op: str, mean: bool, x: Any, window: Window, stride: Window, padding: Window, out: Any
) -> Any:
    call = Call(op)
    image = call.array("x", x, rank=4)
    batches, height, width, channels = image.shape
    windows = windows_of(call, pair(call, "window", window, 1), stride, padding, 1)
    for first, extent in zip(windows.first, windows.count, strict=True):
        call.number("padding", -first, high=extent // 2)
    p, q = window_counts(call, (height, width), windows)
    result = call.output("out", out, (batches, p, q, channels), image.dtype)
    if result.size:
        block = min(MOST_CHANNELS, tile.next_power_of_2(channels))
        pool_kernel[(tile.cdiv(batches * p * q, PIXELS), tile.cdiv(channels, block))](
            *(x, result.value, image.strides, result.strides, (height, width, p, q)),
            *(batches * p * q, channels, windows.step, windows.first),
            R=windows.count[0],
            S=windows.count[1],
            MEAN=mean,
            PIXELS=PIXELS,
            BLOCK=block,
        )
    return result.value


def _windows(x: Array, window: Window, stride: Window, padding: Window, border: float) -> Array:
    """Return the windows in float64: batch x P x Q x channels x R x S."""
    call = Call("pooling")
    windows = windows_of(call, pair(call, "window", window, 1), stride, padding, 1)
    padded = np.pad(wide(x)[0], edges_of(windows), constant_values=border)
    down, right = windows.step
    return sliding_window_view(padded, windows.count, axis=(1, 2))[:, ::down, ::right]


def max_pool2d_reference(x: Array, window: Window, stride: Window, padding: Window = 0) -> Array:
    """Return the maxima in float64."""
    result: Array = _windows(x, window, stride, padding, -np.inf).max(axis=(-2, -1))
    return result


def avg_pool2d_reference(x: Array, window: Window, stride: Window, padding: Window = 0) -> Array:
    """Return the means in float64."""
    result: Array = _windows(x, window, stride, padding, 0.0).mean(axis=(-2, -1))
    return result
