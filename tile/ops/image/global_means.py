"""The mean of all pixels of each channel, which adaptive windows of one pixel are.

Planes are rows, of which a program has several or a part. Where channels are contiguous, a program
has a block of them, and goes over the pixels.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Rows
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.image.images import Image
from tile.runtime.grid import LIMITS

BLOCK = 4096  # elements of a plane that a program adds up at a time
PIXELS, CHANNELS = 32, 64  # of a tile where channels are contiguous


@tile.jit
def plane_means_kernel(x_ptr, y_ptr, planes, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    plane, exists = rows_of(planes, ROWS)
    lane = tl.arange(0, BLOCK)[None, :]
    total = widen(tl.zeros((ROWS, BLOCK), x_ptr.dtype.element_ty))
    for start in range(0, length, BLOCK):
        column = start + lane
        inside = exists & (column < length)
        total += widen(tl.load(x_ptr + plane * length + column, mask=inside, other=0.0))
    tl.store(y_ptr + plane, tl.sum(total, axis=1, keep_dims=True) / length, mask=exists)


@tile.jit
def channel_means_kernel(
    x_ptr, y_ptr, channels, length, PIXELS: tl.constexpr, CHANNELS: tl.constexpr
):
    n = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    total = widen(tl.zeros((PIXELS, CHANNELS), x_ptr.dtype.element_ty))
    for start in range(0, length, PIXELS):
        pixel = start + tl.arange(0, PIXELS)[:, None]
        inside = (pixel < length) & (channel < channels)
        at = (n * length + pixel) * channels + channel
        total += widen(tl.load(x_ptr + at, mask=inside, other=0.0))
    mean = tl.sum(total, axis=0, keep_dims=True) / length
    tl.store(y_ptr + n * channels + channel, mean, mask=channel < channels)


def store_global_means(backend: str, x: Image, y: Image) -> bool:
    """Write the means of the channels of `x`; return False for strides that are not contiguous."""
    batches, height, width, channels = x.shape
    length = height * width
    if batches > LIMITS[1] or (y.strides[0], y.strides[3]) != (channels, 1):
        return False
    if x.strides == (channels * length, width, 1, length):
        shape = row_tile(backend, Rows(batches * channels, length, length), BLOCK)
        launch(plane_means_kernel, (tile.cdiv(batches * channels, shape["ROWS"]),))(
            x.value, y.value, batches * channels, length, **shape
        )
        return True
    if x.strides == (length * channels, width * channels, channels, 1):
        launch(channel_means_kernel, (tile.cdiv(channels, CHANNELS), batches))(
            x.value, y.value, channels, length, PIXELS=PIXELS, CHANNELS=CHANNELS
        )
        return True
    return False
