"""The gradient of logits: dz[i, j] = dloss[i] * (exp(z[i, j] - s[i]) - (j == target[i])).

z = x @ weight.T is computed anew, or read where the forward pass stored it.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.linear.logits import add_matmul
from tile.ops.linear.matmul_tiles import tile_position

STORED = 4096  # logits of a program that reads them


@tile.jit
def logits_gradient_kernel(
    dloss_ptr,
    x_ptr,
    weight_ptr,
    target_ptr,
    log_ptr,
    dz_ptr,
    rows,
    first,
    end,
    classes,
    length,
    x_strides,
    weight_strides,
    IGNORED: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Store dz of the classes from `first` to `end`, of which there are `classes`."""
    tile_row, tile_column = tile_position(rows, classes, BLOCK_M, BLOCK_N, GROUP)
    tl.assume(first >= 0)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = first + tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    z = add_matmul(
        *(x_ptr, weight_ptr, row, column, rows, end, 0, length, length),
        *(x_strides, weight_strides, tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS), BLOCK_K),
    )
    inside = row < rows
    target = tl.load(target_ptr + row, mask=inside, other=IGNORED)
    used = target != IGNORED
    share = tl.where(used, tl.load(dloss_ptr + row, mask=inside, other=0.0), 0.0)
    z = tl.exp(z - tl.load(log_ptr + row, mask=inside, other=0.0)[:, None])
    z -= tl.where(column[None, :] == target[:, None], 1.0, 0.0)
    at = row.to(tl.int64)[:, None] * classes + (column - first)[None, :]
    mask = inside[:, None] & (column < end)[None, :]
    tl.store(dz_ptr + at, (z * share[:, None]).to(dz_ptr.dtype.element_ty), mask=mask)


@tile.jit
def stored_logits_gradient_kernel(
    dloss_ptr,
    logits_ptr,
    target_ptr,
    log_ptr,
    dz_ptr,
    classes,
    IGNORED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store dz of a part of a row of logits."""
    parts = tl.cdiv(classes, BLOCK)
    row = tl.program_id(0) // parts
    column = tl.program_id(0) % parts * BLOCK + tl.arange(0, BLOCK)
    at = row.to(tl.int64) * classes + column
    z = widen(tl.load(logits_ptr + at, mask=column < classes, other=0.0))
    target = tl.load(target_ptr + row)
    share = tl.where(target != IGNORED, tl.load(dloss_ptr + row), 0.0)
    z = tl.exp(z - tl.load(log_ptr + row)) - tl.where(column == target, 1.0, 0.0)
    tl.store(dz_ptr + at, (z * share).to(dz_ptr.dtype.element_ty), mask=column < classes)
