"""Grouped matrix multiplication: each group of rows is multiplied by a matrix of its own.

    out[i] = a[i] @ b[g]        for the rows i of group g: ends[g - 1] <= i < ends[g]

This is the linear layer of a mixture of experts, whose tokens are sorted by expert. The sizes of
groups are data in device memory, so the grid has as many tiles of rows as there can be: one more
for each group than all rows fill. A program adds up the tiles of the groups before to learn which
group and rows it has; those left over return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import I32, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.reference import Array
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.grouped_matmul_wgrad import check_ends, grouped_matmul_wgrad
from tile.ops.linear.grouped_programs import grouped_programs, programs_config
from tile.ops.linear.matmul_tiles import tile_position


@tile.jit
def grouped_matmul_kernel(
    a_ptr,
    b_ptr,
    ends_ptr,
    out_ptr,
    rows,
    N,
    K,
    groups,
    a_row,
    a_inner,
    b_group,
    b_inner,
    b_column,
    out_row,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    most_rows = rows + groups * BLOCK_M
    tile_row, tile_column = tile_position(most_rows, N, BLOCK_M, BLOCK_N, GROUP)
    left = tile_row  # tiles of rows until this program's one
    group, start, end = -1, 0, 0
    while (left >= 0) & (group + 1 < groups):
        group += 1
        start = end
        end = tl.load(ends_ptr + group)
        tl.device_assert((end >= start) & (end <= rows), "ends are rows of a")
        left -= tl.cdiv(end - start, BLOCK_M)
    if left >= 0:
        return
    first = start + (left + tl.cdiv(end - start, BLOCK_M)) * BLOCK_M
    tl.assume(first >= 0)
    tl.assume(group >= 0)
    row = first + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inner = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + row.to(tl.int64) * a_row + inner[None, :] * a_inner
    b_tile = b_ptr + tl.cast(group, tl.int64) * b_group
    b_tile += inner[:, None] * b_inner + column.to(tl.int64) * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for k in range(0, K, BLOCK_K):
        # Rows of the next group give results that are not stored.
        a = tl.load(a_tile, mask=(row < rows) & (inner[None, :] < K - k), other=0.0)
        b = tl.load(b_tile, mask=(inner[:, None] < K - k) & (column < N), other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
        a_tile += BLOCK_K * a_inner
        b_tile += BLOCK_K * b_inner
    inside = (row < end) & (column < N)
    tl.store(
        out_ptr + row.to(tl.int64) * out_row + column,
        total.to(out_ptr.dtype.element_ty),
        mask=inside,
    )


def _gradients(step: Any) -> dict[str, Any]:
    a, b, ends = (step.arguments[name] for name in ("a", "b", "ends"))
    options, grad, gradients = step.options("precision"), step.grads[0], {}
    if "a" in step.needed:
        gradients["a"] = grouped_matmul(grad, b.mT, ends, **options)
    if "b" in step.needed:
        gradients["b"] = grouped_matmul_wgrad(a, grad, ends, **options)
    return gradients


@differentiable(_gradients)
@planned()
def grouped_matmul(a: Any, b: Any, ends: Any, *, precision: str = "ieee", out: Any = None) -> Any:
    """Return the rows of `a`, each multiplied by the matrix of its group.

    a: rows x K; b: groups x K x N, of the type of `a`; any strides. ends: int32, for each group one
    past its last row; the last is the number of rows. precision: of float32 operands, as
    `input_precision` of `tl.dot`.
    """
    call = Call("grouped_matmul")
    left, right = call.matching(a=(a, "rows x K"), b=(b, "groups x K x N"))
    (rows, k), (groups, _, n) = left.shape, right.shape
    (last,) = call.vectors(groups, (I32,), ends=ends)
    check_ends(last, rows)
    call.choice("precision", precision, PRECISIONS)
    result = call.output("out", out, (rows, n), left.dtype)
    stride = result.rows().stride
    if result.size:
        config = tiles_of(call.backend, left.dtype, rows // groups, n, k, precision)
        own = programs_config(call, config, left, right, result)
        if own is not None and left.strides[1] == 1:
            grouped_programs(call, left, right, last, result, own)
            return result.value
        tile_rows = tile.cdiv(rows, config["BLOCK_M"]) + groups
        launch(grouped_matmul_kernel, (tile_rows * tile.cdiv(n, config["BLOCK_N"]),))(
            *(a, b, ends, result.value, rows, n, k, groups, *left.strides, *right.strides, stride),
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(left.dtype).name),
            **config,
        )
    return result.value


def grouped_matmul_reference(a: Array, b: Array, ends: Array) -> Array:
    """Return the result in float64."""
    parts = [rows @ matrix for rows, matrix in zip(np.split(a, ends[:-1]), b, strict=True)]
    return np.concatenate(parts)
