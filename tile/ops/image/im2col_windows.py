"""The windows of a convolution in an im2col descriptor, which holds small numbers alone.

Pixels move to the right and below only: windows of a gradient, which go the other way, are
reversed.
"""

from __future__ import annotations

from dataclasses import replace

from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows

# What a descriptor of two spatial axes can hold.
MOST_STEP, LEAST_CORNER, MOST_CORNER, MOST_MOVE = 8, -128, 127, 255


def ahead(conv: Convolution) -> Convolution:
    """Return the convolution by windows that go to the right and below, with filters in order."""
    windows, filters = conv.windows, conv.filters
    first, apart, start = [*windows.first], [*windows.apart], filters.start
    strides = [*filters.strides]
    for axis in (0, 1):
        if apart[axis] < 0:
            last = filters.shape[1 + axis] - 1
            first[axis] += last * apart[axis]
            start += last * strides[1 + axis]
            apart[axis], strides[1 + axis] = -apart[axis], -strides[1 + axis]
    moved = replace(windows, first=(first[0], first[1]), apart=(apart[0], apart[1]))
    k, r, s, c = strides
    ordered = replace(filters, start=start, strides=(k, r, s, c))
    return replace(conv, windows=moved, filters=ordered)


def upper_corner(windows: Windows, image: Image, out: Image) -> tuple[int, int]:
    """Return the distance of the pixels under the first elements of the last windows to the end."""
    below, right = (
        windows.first[axis] + (out.shape[1 + axis] - 1) * windows.step[axis] + 1 for axis in (0, 1)
    )
    return below - image.shape[1], right - image.shape[2]


def fits_descriptor(windows: Windows, image: Image, out: Image) -> bool:
    """Return True if a descriptor can hold the windows of `image`, as many as pixels of `out`."""
    moves = [(n - 1) * apart for n, apart in zip(windows.count, windows.apart, strict=True)]
    ends = [*windows.first, *upper_corner(windows, image, out)]
    return (
        max(moves) <= MOST_MOVE
        and max(windows.step) <= MOST_STEP
        and min(ends) >= LEAST_CORNER
        and max(ends) <= MOST_CORNER
    )
