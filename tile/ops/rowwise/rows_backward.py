"""The kernel of gradients of rows that need one sum over the row: of softmax and its logarithm.

dx[i] = GRADIENT(dy[i], y[i], sum over j of TERM(dy[j], y[j]))
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import rows_of

BLOCK = 8192  # elements of an iteration


@tile.jit
def rows_backward_kernel(
    dy_ptr,
    y_ptr,
    dx_ptr,
    dy_stride,
    y_stride,
    dx_stride,
    rows,
    length,
    TERM: tl.constexpr,
    GRADIENT: tl.constexpr,
    LONG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store GRADIENT of dy, y and the sum of TERM of dy and y over the row."""
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    y = widen(tl.load(y_ptr + row * y_stride + column, mask=inside, other=0.0))
    dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
    terms = TERM(dy, y)
    if LONG:
        for start in range(BLOCK, length, BLOCK):
            at = start + column
            other_y = widen(tl.load(y_ptr + row * y_stride + at, mask=at < length, other=0.0))
            other_dy = widen(tl.load(dy_ptr + row * dy_stride + at, mask=at < length, other=0.0))
            terms += TERM(other_dy, other_y)
    total = tl.sum(terms, axis=1, keep_dims=True)
    tl.store(dx_ptr + row * dx_stride + column, GRADIENT(dy, y, total), mask=inside)
    if LONG:
        for start in range(BLOCK, length, BLOCK):
            at = start + column
            y = widen(tl.load(y_ptr + row * y_stride + at, mask=at < length, other=0.0))
            dy = widen(tl.load(dy_ptr + row * dy_stride + at, mask=at < length, other=0.0))
            tl.store(dx_ptr + row * dx_stride + at, GRADIENT(dy, y, total), mask=at < length)
