"""Convolutions whose images or filters TMA cannot load, by copies that it can (aligned_images.py).

cuDNN transposes planes, too. Three rules: channels that are no multiple of `CHANNELS` are filled
up; groups of fewer become one of as many, whose filters have zeros for the channels of others; and
a row of a window over very few channels becomes the channels of one element (window_rows.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

import tile
from tile.ops.core.call import F32, Call
from tile.ops.core.new_arrays import DType
from tile.ops.image.aligned_images import Copy, copy_images, new_image
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_windows import fits_descriptor
from tile.ops.image.images import Image
from tile.ops.image.window_rows import FEW, window_rows

CHANNELS = 32  # a multiple of the channels of all iterations: rows of 64 bytes
MERGED = 32  # filters and channels, at least, of groups that become one
LEAST_WORK = 2**25  # multiplications, from which on copies pay


def aligned(conv: Convolution) -> Convolution:
    """Return a convolution of copies that TMA can load where these are worth it.

    The windows go to the right and below (`ahead`).
    """
    pixels, count, inner = conv.sizes
    size, tf32 = conv.dtype.itemsize, conv.dtype == F32 and conv.precision == "tf32"
    work = pixels * count * inner * conv.groups
    if not (size == 2 or tf32) or work < LEAST_WORK or not conv.call.describes():
        return conv
    conv = _sampled(conv)
    if conv.groups == 1 and conv.filters.shape[3] <= FEW:
        return _by_rows(conv)
    return _by_channels(conv) if fits_descriptor(conv.windows, conv.x, conv.out) else conv


def _sampled(conv: Convolution) -> Convolution:
    """Return the convolution of those pixels of planes that windows of one element have."""
    windows, (_, p, q, _) = conv.windows, conv.out.shape
    if windows.count != (1, 1) or windows.first != (0, 0) or conv.x.strides[3] == 1:
        return conv
    x = conv.x.phase((0, 0), windows.step, (p, q))
    return replace(conv, x=x, windows=replace(windows, step=(1, 1)))


def _by_channels(conv: Convolution) -> Convolution:
    """Return the convolution with channels filled up and groups merged."""
    count, r, s, channels = conv.filters.shape
    groups = conv.groups
    most = max(1, min(groups, MERGED // min(channels, count)))
    merged = next(n for n in range(most, 0, -1) if groups % n == 0)
    padded = tile.cdiv(channels * merged, CHANNELS) * CHANNELS
    left = groups // merged
    if left > 1 and (padded != channels * merged or count * merged % CHANNELS):
        return conv
    x, (batches, height, width, _) = conv.x, conv.x.shape
    copies = []
    if x.strides[3] != 1 or left * padded != x.shape[3] or not conv.call.describes(x.operand):
        x = new_image(conv.call, (batches, height, width, left * padded), conv.dtype)
        copies.append(Copy(conv.x, x))
    filters = conv.filters
    if merged > 1 or padded != channels or not _loadable(conv):
        filters = new_image(conv.call, (groups * count, r, s, padded), conv.dtype)
        copies.append(Copy(conv.filters, filters, 0, count, conv.filter_step, merged))
    if not copies:
        return conv
    copy_images(*copies)
    step = count * merged * filters.strides[0] if filters is not conv.filters else conv.filter_step
    per_group = replace(filters, shape=(count * merged, r, s, padded))
    return replace(conv, x=x, filters=per_group, groups=left, filter_step=step)


def _loadable(conv: Convolution) -> bool:
    """Return True if TMA loads the filters as they are."""
    dense = conv.filters.strides[3] == 1
    by_columns = conv.filters.strides[0] == 1 and conv.dtype.itemsize == 2 and conv.groups == 1
    return (dense or by_columns) and conv.call.describes(conv.filters.operand)


def _by_rows(conv: Convolution) -> Convolution:
    """Return the convolution in which a row of the window is the channels of one element."""
    rows = window_rows(conv.call, conv.x, conv.out, conv.windows, conv.dtype)
    if rows is None:
        return conv
    count = conv.filters.shape[0]
    weights = new_image(conv.call, rows.filter_shape(count), conv.dtype)
    copy_images(rows.copy, Copy(conv.filters, weights))
    return replace(conv, x=rows.image, filters=rows.filters(weights), windows=rows.windows)


def copies_pay(call: Call, dtype: DType, dy: Image, filters: Image) -> bool:
    """Return True if the images of a gradient are worth copies; filters: also the result."""
    work = math.prod(dy.shape) * math.prod(filters.shape[1:])
    return dtype.itemsize == 2 and work >= LEAST_WORK and call.describes()


def planes_pay(call: Call, dtype: DType, dy: Image, filters: Image, other: Image) -> bool:
    """Return True if the images of a gradient that are planes should be copied."""
    planes = not all(image.channels_last for image in (dy, filters, other))
    return planes and copies_pay(call, dtype, dy, filters)
