"""Sums over a row of the window of a depthwise convolution."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen


@tile.jit
def filter_row(weights, step, mask, S: tl.constexpr):
    """Return the elements of filters in a row of the window, a tile for each column."""
    row: Any = ()
    for s in tl.static_range(S):
        row += (tl.load(weights + s * step, mask=mask, other=0.0),)
    return row


@tile.jit
def add_row(
    totals,
    filters,
    r,
    origin,
    strides,
    top,
    left,
    exists,
    height,
    width,
    apart,
    S: tl.constexpr,
    FLIPPED: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    ADJACENT: tl.constexpr,
):
    """Return the sums of a group's pixels, with those of row `r` of the window added.

    filters: a tile for each column of the window. origin: pointers to the first pixels of windows,
    which are at `top`, `left` of the image.
    """
    h = top + r * apart
    in_row = exists & (h >= 0) & (h < height)
    row = origin + tl.cast(r * apart, tl.int64) * strides[1]
    added: Any = ()
    for j in tl.static_range(ADJACENT):
        total = totals[j]
        for s in tl.static_range(S):
            right = j * STEP + s * APART
            inside = in_row & (left + right >= 0) & (left + right < width)
            x = widen(tl.load(row + right * strides[2], mask=inside, other=0.0))
            total += x * widen(filters[S - 1 - s if FLIPPED else s])
        added += (total,)
    return added
