"""Sums of depthwise convolutions by rows: strips of adjacent pixels, down an image."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen


@tile.jit
def repeated(x, COUNT: tl.constexpr):
    """Return a tuple of equal tiles."""
    tiles: Any = ()
    for _ in tl.static_range(COUNT):
        tiles += (x,)
    return tiles


@tile.jit
def load_row(row, exists, STEP: tl.constexpr, MASKED: tl.constexpr, COUNT: tl.constexpr):
    """Return adjacent pixels of a row; exists: their masks."""
    pixels: Any = ()
    for j in tl.static_range(COUNT):
        if MASKED:
            pixels += (tl.load(row + j * STEP, mask=exists[j], other=0.0),)
        else:
            pixels += (tl.load(row + j * STEP),)
    return pixels


@tile.jit
def add_row(totals, pixels, weights, R: tl.constexpr, S: tl.constexpr, STRIP: tl.constexpr):
    """Return the sums of R rows of the result, the oldest one first, with a row of x added."""
    added: Any = ()
    for k in tl.static_range(R):
        for j in tl.static_range(STRIP):
            total = totals[k * STRIP + j]
            for s in tl.static_range(S):
                total += pixels[j + s] * weights[(R - 1 - k) * S + s]
            added += (total,)
    return added


@tile.jit
def store_rows(
    x,
    ahead,
    of_x,
    out,
    of_out,
    weights,
    initial,
    strides,
    top,
    steps,
    height,
    R: tl.constexpr,
    S: tl.constexpr,
    STRIP: tl.constexpr,
    AHEAD: tl.constexpr,
    STEP: tl.constexpr,
    OUT_STEP: tl.constexpr,
    ACTIVATION: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Store the rows of strips whose windows are in `steps` rows of x, from row `top` on.

    ahead: the first rows; x: the row after these. of_x, of_out: masks of pixels. initial: sums of
    nothing. strides: of rows. Rows that do not exist are not added; another is loaded for them.
    """
    down, out_down = strides
    last = min(top + steps, height) - 1
    totals = repeated(initial, R * STRIP)
    for start in range(0, steps, R):  # without moves of sums between registers
        for i in tl.static_range(R):
            row = top + start + i
            pixels: Any = ()
            for j in tl.static_range(STRIP + S - 1):
                pixels += (widen(ahead[0][j]),)
            ahead = (*ahead[1:], load_row(x, of_x, STEP, MASKED, STRIP + S - 1))
            x += tl.where((row + AHEAD >= 0) & (row + AHEAD < last), down, 0)
            if (row >= 0) & (row < height):
                totals = add_row(totals, pixels, weights, R, S, STRIP)
            if (start + i >= R - 1) & (start + i < steps):
                for j in tl.static_range(STRIP):
                    total = totals[j]
                    if ACTIVATION is not None:
                        total = ACTIVATION(total)
                    if MASKED:
                        tl.store(out + j * OUT_STEP, total, mask=of_out[j])
                    else:
                        tl.store(out + j * OUT_STEP, total)
                out += out_down
            totals = totals[STRIP:] + repeated(initial, STRIP)
