"""A matrix times a vector, as in decoding, where reading the matrix once takes all of the time.

    out[row] = activation(sum over k of matrix[row, k] * vector[k] + bias)

A dot has 8 columns at least, and TMA copies no column of one element. So threads multiply: each
loads vectors of elements of a few rows, several iterations at a time, and sums them up times those
of the vector; the sums of the threads of a row are added up at the end.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.batched_grid import batched_grid
from tile.ops.core.call import FLOATS, Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.strided import INT32_LIMIT, Strided

# By rows and elements of a row, the tile of 16-bit elements.
TABLE = Table(
    {(ANY, ANY): {"BLOCK_ROWS": 4, "BLOCK_K": 512, "UNROLL": 1}},
    {"nvptx": {(ANY, ANY): {"BLOCK_ROWS": 4, "BLOCK_K": 512, "UNROLL": 4}}},
)


@tile.jit
def matvec_kernel(
    matrix_ptr,
    vector_ptr,
    bias_ptr,
    out_ptr,
    ROWS,
    K,
    matrix_batch,
    matrix_row,
    vector_batch,
    vector_inner,
    out_batch,
    out_row,
    ACTIVATION: tl.constexpr,
    SUMS: tl.constexpr,
    ROW_BIAS: tl.constexpr,
    WIDE: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    UNROLL: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    """Multiply a block of rows by the vector; strides are in elements.

    ROW_BIAS: the bias has an element for each row, not one for all.
    """
    batch = tl.program_id(BATCH_AXIS).to(tl.int64)
    row = tl.program_id(1 - BATCH_AXIS) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    matrix = matrix_ptr + batch * matrix_batch + (row % ROWS).to(tl.int64)[:, None] * matrix_row
    # The vector is loaded as a tile of equal rows, in the layout of the matrix: equal loads of a
    # thread are one, where a tile of one row would pass through shared memory in each iteration.
    vector = vector_ptr + batch * vector_batch + tl.zeros((BLOCK_ROWS, 1), dtype=tl.int32)
    inner = tl.arange(0, BLOCK_K)[None, :]
    sums = tl.zeros((BLOCK_ROWS, BLOCK_K), dtype=SUMS)
    for first in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = first + inner
        y_ptr = vector + (k.to(tl.int64) if WIDE else k) * vector_inner
        if EVEN:
            x, y = tl.load(matrix + k), tl.load(y_ptr)
        else:
            x, y = tl.load(matrix + k, mask=k < K, other=0.0), tl.load(y_ptr, mask=k < K, other=0.0)
        sums += x.to(SUMS) * y.to(SUMS)
    total = tl.sum(sums, axis=1)
    if bias_ptr is not None:
        at = row if ROW_BIAS else row * 0
        total += tl.load(bias_ptr + at, mask=row < ROWS, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    out = out_ptr + batch * out_batch + row.to(tl.int64) * out_row
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=row < ROWS)


def is_matvec(dtype: DType, a: Strided, b: Strided, sizes: tuple[int, int, int, int]) -> bool:
    """Return True for a vector, and a matrix that is contiguous along the inner axis."""
    _, m, n, k = sizes
    inner = b.strides[1] if m == 1 else a.strides[2]
    return min(m, n) == inner == 1 and k > 0 and dtype in FLOATS


def matvec(
    call: Call,
    a: Strided,
    b: Strided,
    out: Strided,
    sizes: tuple[int, int, int, int],
    dtype: DType,
    sums: DType,
    *,
    bias: Any = None,
    function: Any = None,
) -> None:
    """Write function(a @ b + bias) to `out`; sizes: batches, M, N and K."""
    batches, m, n, k = sizes
    is_row = m == 1  # the matrix is b.T
    if is_row:
        a, b, out = b.transposed(), a.transposed(), out.transposed()
    rows = max(m, n)
    config = dict(TABLE.select(call.backend, rows, k))
    config["BLOCK_K"] = min(2 * config["BLOCK_K"] // dtype.itemsize, tile.next_power_of_2(k))
    grid, order = batched_grid(tile.cdiv(rows, config["BLOCK_ROWS"]), batches)
    launch(matvec_kernel, grid, dependent=True)(
        *(a.value, b.value, bias, out.value, rows, k),
        *(*a.strides[:2], *b.strides[:2], *out.strides[:2]),
        ACTIVATION=function,
        SUMS=getattr(tl, sums.name),
        ROW_BIAS=is_row,
        WIDE=k * abs(b.strides[1]) >= INT32_LIMIT,
        EVEN=k % config["BLOCK_K"] == 0,
        **order,
        **config,
    )
