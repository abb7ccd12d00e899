"""The kernel of gradients of rows that need one sum over the row: of softmax and its logarithm.

dx[i] = GRADIENT(dy[i], y[i], sum over j of TERM(dy[j], y[j]))
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import rows_of
from tile.ops.core.tables import ANY, Table

# By the length of a row, at most: elements of an iteration. H200, float16, 2026-11-29.
BLOCKS = Table(
    {(8192,): {"BLOCK": 8192}, (16384,): {"BLOCK": 4096}, (ANY,): {"BLOCK": 8192}},
    {},
)


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
