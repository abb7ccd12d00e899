"""Rows of windows over few channels as the channels of one element, so that TMA loads them.

Three channels make no vectors. An image with 4 or 8 channels, and with its padding to the left and
right, has each row of a window in adjacent elements: a view of it has as many pixels as the result,
which overlap, and windows of one column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tile
from tile.ops.core.call import Call
from tile.ops.core.new_arrays import DType
from tile.ops.image.aligned_images import Copy, new_image, viewed
from tile.ops.image.im2col_windows import fits_descriptor
from tile.ops.image.images import Four, Image
from tile.ops.image.windows import Windows

FEW = 8  # channels
ALIGNED = 16  # bytes, of all strides of a descriptor
ELEMENTS = 32  # a multiple of the channels of all iterations: rows of 64 bytes


@dataclass(frozen=True)
class WindowRows:
    """The view of an image, its windows, and the copy that writes it; channel: of the copy."""

    image: Image
    windows: Windows
    copy: Copy
    channels: int

    def filters(self, image: Image) -> Image:
        """Return filters of the copy's channels, with zeros at the right, as those of the view."""
        count, r, _, _ = image.shape
        row = self.image.shape[3]
        return viewed(image, (count, r, 1, row), (r * row, row, row, 1))

    def filter_shape(self, count: int) -> Four:
        """Return the shape of filters of the copy's channels."""
        columns = self.image.shape[3] // self.channels
        return count, self.windows.count[0], columns, self.channels


def window_rows(
    call: Call, x: Image, out: Image, windows: Windows, dtype: DType
) -> WindowRows | None:
    """Return the view of an image of few channels, if a descriptor can hold its windows."""
    (r, s), (first, left) = windows.count, windows.first
    size, step, channels = dtype.itemsize, windows.step[1], 4
    while channels < x.shape[3] or channels * step * size % ALIGNED:
        channels *= 2
    if channels > FEW or windows.apart[1] != 1 or left > 0 or not r * s:
        return None
    (batches, height, *_), q = x.shape, out.shape[2]
    row = tile.cdiv(s * channels, ELEMENTS) * ELEMENTS
    # All elements end within the row of pixels, and rows begin at multiples of 128 bytes.
    width = tile.cdiv((q - 1) * step * channels + row, channels * ALIGNED) * ALIGNED
    narrow = replace(
        windows,
        count=(r, 1),
        first=(first, 0),
        step=(windows.step[0], 1),
        apart=(windows.apart[0], 1),
    )
    shape, strides = (batches, height, q, row), (step * channels, 1)
    rows = width * channels
    image = Image(x.operand, shape, (height * rows, rows, *strides))
    if not fits_descriptor(narrow, image, out):
        return None
    padded = new_image(call, (batches, height, width, channels), dtype)
    view = viewed(padded, shape, image.strides)
    return WindowRows(view, narrow, Copy(x, padded, -left), channels)
