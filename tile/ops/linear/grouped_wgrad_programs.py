"""The gradients of the matrices of grouped matmuls by programs that take several tiles each.

While a program stores one tile, the loads of the next one are in flight. Blocks of descriptors end
with their group, as in grouped_programs.py.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import Configuration
from tile.ops.linear.configurations import PROGRAMS
from tile.ops.linear.grouped_programs import OTHER_PROGRAMS, rows_until
from tile.ops.linear.matmul_tiles import tile_at


@tile.jit
def grouped_wgrad_programs_kernel(
    a_ptr,
    dout_ptr,
    ends_ptr,
    db_ptr,
    rows,
    K,
    N,
    groups,
    a_row,
    dout_row,
    db_group,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Store the tiles of the gradients of all matrices, one matrix after the other."""
    a_rows = rows_until(a_ptr, a_row, rows, K, BLOCK_K, BLOCK_M)
    dout_rows = rows_until(dout_ptr, dout_row, rows, N, BLOCK_K, BLOCK_N)
    db = tl.make_tensor_descriptor(db_ptr, [groups, K, N], [db_group, N, 1], [1, BLOCK_M, BLOCK_N])
    tiles = tl.cdiv(K, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles * groups, tl.num_programs(0)):
        group = number // tiles
        tile_row, tile_column = tile_at(number % tiles, K, N, BLOCK_M, BLOCK_N, GROUP)
        start = tl.load(ends_ptr + group - 1, mask=group > 0, other=0)
        end = tl.load(ends_ptr + group)
        tl.device_assert((start >= 0) & (end >= start) & (end <= rows), "ends are rows of a")
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for first in range(start, end, BLOCK_K):
            count = min(end - first, BLOCK_K)
            row, skipped = first + count - 1, BLOCK_K - count
            a = a_rows.load([row, skipped, tile_row * BLOCK_M]).reshape(BLOCK_K, BLOCK_M)
            dout = dout_rows.load([row, skipped, tile_column * BLOCK_N])
            total = tl.dot(a.T, dout.reshape(BLOCK_K, BLOCK_N), total)
        result = total.to(db_ptr.dtype.element_ty).reshape(1, BLOCK_M, BLOCK_N)
        db.store([group, tile_row * BLOCK_M, tile_column * BLOCK_N], result)


def grouped_wgrad_programs(
    call: Call, a: Operand, dout: Operand, ends: Operand, db: Operand, config: Configuration
) -> None:
    """Write the gradient of the matrices to `db`. Rows of `a` and `dout` are contiguous."""
    (rows, k), (groups, _, n) = a.shape, db.shape
    launch(grouped_wgrad_programs_kernel, (PROGRAMS.get(call.backend, OTHER_PROGRAMS),))(
        *(a.value, dout.value, ends.value, db.value, rows, k, n, groups),
        *(a.strides[0], dout.strides[0], db.strides[0]),
        **config,
    )
