"""Grouped matmuls by programs that take several tiles each, with descriptors.

A program a multiprocessor takes every so many tiles: while it stores one, the loads of the next one
are in flight. Groups end anywhere, and blocks of descriptors end with them (`rows_until`), so that
TMA loads and stores all rows.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.linear.configurations import PROGRAMS, tiles
from tile.ops.linear.matmul_tiles import tile_at

# With three stages instead of four, wider strips of a result are stored at a time. H200, float16, 8
# groups of 1024 x 2048 x 2048, 2026-11-29.
TABLE = Table(
    {(ANY,): tiles(64, 64, 32)}, {"nvptx": {(ANY,): tiles(128, 256, 64, warps=8, stages=3)}}
)
OTHER_PROGRAMS = 3  # of backends that `PROGRAMS` lacks


@tile.jit
def rows_until(ptr, step, rows, columns, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Return a descriptor of blocks of rows that end with their group.

    Two axes are of rows, and the second one has as many as a block: a block with the index
    [row + count - 1, BLOCK - count, column] has `count` rows from `row` on, and no others.
    """
    wide = tl.cast(step, tl.int64)
    return tl.make_tensor_descriptor(
        ptr - wide * (BLOCK - 1), [rows, BLOCK, columns], [wide, wide, 1], [1, BLOCK, WIDTH]
    )


@tile.jit
def grouped_programs_kernel(
    a_ptr,
    b_ptr,
    ends_ptr,
    out_ptr,
    rows,
    N,
    K,
    groups,
    a_row,
    b_group,
    b_row,
    out_row,
    TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Store the tiles of all groups, one group after the other. TRANSPOSED: matrices of b are."""
    a_rows = tl.make_tensor_descriptor(a_ptr, [rows, K], [a_row, 1], [BLOCK_M, BLOCK_K])
    shape = [groups, N, K] if TRANSPOSED else [groups, K, N]
    block = [1, BLOCK_N, BLOCK_K] if TRANSPOSED else [1, BLOCK_K, BLOCK_N]
    b_rows = tl.make_tensor_descriptor(b_ptr, shape, [b_group, b_row, 1], block)
    out_rows = rows_until(out_ptr, out_row, rows, N, BLOCK_M, BLOCK_N)
    columns = tl.cdiv(N, BLOCK_N)
    all_tiles, end = 0, 0
    for each in range(groups):
        start = end
        end = tl.load(ends_ptr + each)
        tl.device_assert((end >= start) & (end <= rows), "ends are rows of a")
        all_tiles += tl.cdiv(end - start, BLOCK_M) * columns
    group, passed, start, end = 0, 0, 0, tl.load(ends_ptr)
    for number in tl.range(tl.program_id(0), all_tiles, tl.num_programs(0)):
        while number - passed >= tl.cdiv(end - start, BLOCK_M) * columns:
            passed += tl.cdiv(end - start, BLOCK_M) * columns
            group += 1
            start = end
            end = tl.load(ends_ptr + group)
        tile_row, tile_column = tile_at(number - passed, end - start, N, BLOCK_M, BLOCK_N, GROUP)
        first, column = start + tile_row * BLOCK_M, tile_column * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            # Rows of the next group give results that are not stored.
            a = a_rows.load([first, k])
            if TRANSPOSED:
                b = b_rows.load([group, column, k]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b = b_rows.load([group, k, column]).reshape(BLOCK_K, BLOCK_N)
            total = tl.dot(a, b, total)
        count = min(end - first, BLOCK_M)
        result = total.to(out_ptr.dtype.element_ty).reshape(1, BLOCK_M, BLOCK_N)
        out_rows.store([first + count - 1, BLOCK_M - count, column], result)


def programs_config(call: Call, config: Configuration, *operands: Operand) -> Configuration | None:
    """Return the configuration of programs that take several tiles; None for other operands.

    config: that of a program for each tile. With smaller tiles, a multiprocessor runs several.
    """
    own = TABLE.select(call.backend, 0)
    large = config["BLOCK_M"] * config["BLOCK_N"] >= own["BLOCK_M"] * own["BLOCK_N"]
    fits = all(operand.size and operand.dtype.itemsize == 2 for operand in operands)
    return own if large and fits and call.describes(*operands) else None


def grouped_programs(
    call: Call, a: Operand, b: Operand, ends: Operand, out: Operand, config: Configuration
) -> None:
    """Write the grouped matmul to `out`. Rows of `a` and of `out` are contiguous."""
    (rows, k), (groups, _, n) = a.shape, b.shape
    transposed = b.strides[2] != 1
    launch(grouped_programs_kernel, (PROGRAMS.get(call.backend, OTHER_PROGRAMS),))(
        *(a.value, b.value, ends.value, out.value, rows, n, k, groups, a.strides[0]),
        *(b.strides[0], b.strides[2 if transposed else 1], out.strides[0]),
        TRANSPOSED=transposed,
        **config,
    )
