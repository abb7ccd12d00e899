"""The gradient of the filters of a convolution.

    dfilters[k, r, s, c] = sum over n, p, q of dy[n, p, q, k]
                           * x[n, p * stride - padding + r * dilation, ..., c]

It is a matmul (matmul_wgrad.py), but for groups of one channel (depthwise_wgrad.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.reference import Array, wide
from tile.ops.image.aligned_convolution import copies_pay, planes_pay
from tile.ops.image.aligned_images import Copy, copied, copy_images, new_image
from tile.ops.image.conv_arguments import (
    channels_in,
    channels_last,
    group_count,
    grouped,
)
from tile.ops.image.depthwise_wgrad import depthwise_wgrad
from tile.ops.image.images import Image, image_of, in_layout, layout_of
from tile.ops.image.matmul_wgrad import wgrad_by_matmul
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.window_rows import FEW, window_rows
from tile.ops.image.windows import Window, Windows, edges_of, pair, window_counts, windows_of
from tile.ops.linear.splits import check_splits


@keeps_channels_last("dy", "x")
@planned()
def conv2d_wgrad(
    dy: Any,
    x: Any,
    window: tuple[int, int],
    stride: Window = 1,
    padding: Window = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    layout: str = "NHWC",
    splits: int | None = None,
) -> Any:
    """Return the gradient of the filters of `conv2d` from `dy`, that of the result.

    x: the image. window: R and S. splits: parts of the pixels, as in `matmul`. The other arguments
    are those of `conv2d`.
    """
    call = Call("conv2d_wgrad")
    layout = layout_of(call, layout)
    gradient = call.array("dy", dy, rank=4)
    operand = call.array("x", x, dtypes=(gradient.dtype,), rank=4)
    grad, image = image_of(gradient, layout), image_of(operand, layout)
    call.choice("precision", precision, PRECISIONS)
    check_splits(call, splits)
    windows = windows_of(call, pair(call, "window", window, 1), stride, padding, dilation)
    (batches, p, q, count), channels = grad.shape, image.shape[3]
    if (image.shape[0], *window_counts(call, image.shape[1:3], windows)) != (batches, p, q):
        raise ArgumentValueError(
            f"conv2d_wgrad: `dy` has shape {gradient.shape}, which is not that of a convolution "
            f"of `x`, of shape {operand.shape}, in the layout {layout}"
        )
    groups = group_count(call, groups, channels, count, "the channels of `x` and of `dy`")
    shape = in_layout((count, *windows.count, channels // groups), layout)
    result = call.new(shape, gradient.dtype)
    if result.size:
        if channels == groups > 1:
            depthwise_wgrad(call, grad, image, result, windows, splits)
        else:
            options = windows, groups, splits, precision
            _by_matmul(call, grad, image, image_of(result, layout), *options)
    return result.value


def _by_matmul(
    call: Call,
    dy: Image,
    x: Image,
    result: Image,
    windows: Windows,
    groups: int,
    splits: int | None,
    precision: str,
) -> None:
    """Write the gradient by a matmul, of copies and with one of the result if these pay."""
    dtype, last, target = result.operand.dtype, result.strides[3] == 1, result
    if groups == 1 and x.shape[3] <= FEW and copies_pay(call, dtype, dy, result):
        rows = window_rows(call, x, dy, windows, dtype)
        if rows is not None:
            (dy,) = (dy,) if dy.channels_last else copied(call, dtype, dy)
            copy_images(rows.copy)
            target = new_image(call, rows.filter_shape(dy.shape[3]), dtype)
            sums = rows.filters(target)
            x, windows = rows.image, rows.windows
            wgrad_by_matmul(call, dy, x, sums.operand, windows, 1, splits, precision, True)
            copy_images(Copy(target, result))
            return
    if planes_pay(call, dtype, dy, result, x):
        dy, x = copied(call, dtype, dy, x)
        target = result if last else new_image(call, result.shape, dtype)
    last = last or target is not result
    wgrad_by_matmul(call, dy, x, target.operand, windows, groups, splits, precision, last)
    if target is not result:
        copy_images(Copy(target, result))


def conv2d_wgrad_reference(
    dy: Array,
    x: Array,
    window: tuple[int, int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
    layout: str,
) -> Array:
    """Return the gradient in float64."""
    dy, x = (channels_last(array, layout) for array in wide(dy, x))
    windows = windows_of(Call("conv2d_wgrad"), window, stride, padding, dilation)
    padded = grouped(np.pad(x, edges_of(windows)), groups)
    result = np.zeros((dy.shape[3], *window, x.shape[3] // groups))
    for r, s, rows, columns in windows.positions((dy.shape[1], dy.shape[2])):
        part = np.einsum("npqgk,npqgc->gkc", grouped(dy, groups), padded[:, rows, columns])
        result[:, r, s] = part.reshape(result[:, r, s].shape)
    return channels_in(result, layout)
