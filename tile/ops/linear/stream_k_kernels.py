"""The kernels of stream-K (stream_k.py): one computes sums of tiles or their parts, one adds these.

Programs that share tiles have `share` iterations each, the first `rest` of them one more.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.linear.matmul_tiles import activated, multiply_tiles, store_tile, tile_at


@tile.jit
def iterations_of(program, shared, steps, streams, share, rest):
    """Return the first iteration of a program, and the end of its iterations."""
    if program < streams:
        first = program * share + min(program, rest)
        end = first + share + tl.cast(program < rest, tl.int32)
    else:
        first = (shared + program - streams) * steps
        end = first + steps
    return first, end


@tile.jit
def program_of(iteration, share, rest):
    """Return the program that has an iteration, of those that share tiles."""
    longer = rest * (share + 1)  # of the first programs, each of which has one iteration more
    if iteration < longer:
        program = iteration // (share + 1)
    else:
        program = rest + (iteration - longer) // share
    return program


@tile.jit
def part_of(program, item, first, steps):
    """Return the number of a program's part: it has two, of its first tile and of its last one."""
    return tl.cast(2 * program, tl.int64) + tl.cast(item != first // steps, tl.int64)


@tile.jit
def stream_matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    out_ptr,
    parts_ptr,
    M,
    N,
    K,
    a_strides,
    b_strides,
    out_strides,
    tiles,
    shared,
    steps,
    streams,
    share,
    rest,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    program = tl.program_id(0)
    first, last = iterations_of(program, shared, steps, streams, share, rest)
    for item in range(first // steps, tl.cdiv(last, steps)):
        begin, end = max(first - item * steps, 0), min(last - item * steps, steps)
        tile_row, tile_column = tile_at(item % tiles, M, N, BLOCK_M, BLOCK_N, GROUP)
        batch = (item // tiles).to(tl.int64)
        row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
        column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
        a_rows, b_columns = (row % M)[:, None], (column % N)[None, :]
        if WIDE:
            a_rows, b_columns = a_rows.to(tl.int64), b_columns.to(tl.int64)
        inner, skipped = tl.arange(0, BLOCK_K), tl.cast(begin, tl.int64) * BLOCK_K
        a_tile = a_ptr + batch * a_strides[0] + skipped * a_strides[2]
        b_tile = b_ptr + batch * b_strides[0] + skipped * b_strides[1]
        a_tile += a_rows * a_strides[1] + inner[None, :] * a_strides[2]
        b_tile += inner[:, None] * b_strides[1] + b_columns * b_strides[2]
        total = multiply_tiles(
            *(a_tile, b_tile, inner, begin * BLOCK_K, min(end * BLOCK_K, K), K),
            *(a_strides[2], b_strides[1], tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)),
            *(PRECISION, SUMS, EVEN, BLOCK_K),
        )
        if end - begin == steps:
            result = activated(total, bias_ptr, (column % N)[None, :], ACTIVATION)
            out = out_ptr + batch * out_strides[0]
            store_tile(result, out, row, column, M, N, out_strides[1], out_strides[2])
        else:
            part = part_of(program, item, first, steps)
            at = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
            tl.store(parts_ptr + part * (BLOCK_M * BLOCK_N) + at, total)


@tile.jit
def add_streams_kernel(
    parts_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    out_strides,
    tiles,
    shared,
    steps,
    streams,
    share,
    rest,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
):
    item = tl.program_id(0)
    begin = program_of(item * steps, share, rest)
    end = program_of(item * steps + steps - 1, share, rest)
    if begin == end:  # one program had the whole tile
        return
    within = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK_N), dtype=parts_ptr.dtype.element_ty)
    for program in range(begin, end + 1):
        first, _ = iterations_of(program, shared, steps, streams, share, rest)
        part = part_of(program, item, first, steps)
        at = within[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        total += tl.load(parts_ptr + part * (BLOCK_M * BLOCK_N) + at)
    tile_row, tile_column = tile_at(item % tiles, M, N, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row * BLOCK_M + within
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + (item // tiles).to(tl.int64) * out_strides[0]
    total = activated(total, bias_ptr, (column % N)[None, :], ACTIVATION)
    store_tile(total, out, row, column, M, N, out_strides[1], out_strides[2])
