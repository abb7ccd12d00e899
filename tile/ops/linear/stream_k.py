"""Stream-K: programs share the iterations of all tiles evenly (Osama et al., arXiv:2301.03598).

Iterations are numbered through: tile by tile, and along the inner axis within a tile. Each of
`streams` programs has an equal range of them, which may begin and end within a tile: its sums of a
part of a tile go to a workspace, and those of a whole tile to the result. A second kernel adds up
the parts of each shared tile in the order of programs, so that results are the same in every run.
If there are more tiles than programs, only the last ones, between one and two for each program, are
shared; each of the others has a program of its own, as in an ordinary matmul.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import Configuration
from tile.ops.linear.configurations import PROGRAMS
from tile.ops.linear.matmul_tiles import activated, multiply_tiles, store_tile, tile_at

LEAST_STEPS = 4  # iterations of a program
OTHER_PROGRAMS = 4  # of backends that `PROGRAMS` lacks
SUM_ROWS = 16  # of a program that adds up parts


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


def stream_matmul(
    call: Call,
    arrays: tuple[Any, Any, Any],
    out: Operand,
    sizes: tuple[int, int, int, int],
    strides: tuple[tuple[int, int, int], ...],
    sums: DType,
    config: Configuration,
    activation: Any,
    **options: Any,
) -> None:
    """Write activation(a @ b + bias) to `out`.

    arrays: a, b and bias. sizes: batches, M, N and K, which is 1 or more. strides: of a, b and out,
    of batch, row and column. sums: the type of sums. options: constexprs of the kernel.
    """
    (a, b, bias), (batches, m, n, k) = arrays, sizes
    block_m, block_n = config["BLOCK_M"], config["BLOCK_N"]
    steps, tiles = tile.cdiv(k, config["BLOCK_K"]), tile.cdiv(m, block_m) * tile.cdiv(n, block_n)
    programs = PROGRAMS.get(call.backend, OTHER_PROGRAMS)
    count = tiles * batches
    shared = count if count <= programs else count % programs and count % programs + programs
    streams = max(1, min(programs, shared * steps // LEAST_STEPS)) if shared else 0
    share, rest = divmod(shared * steps, max(streams, 1))
    parts = call.new((2 * streams, block_m, block_n), sums)
    shares = (tiles, shared, steps, streams, share, rest)
    launch(stream_matmul_kernel, (streams + count - shared,))(
        *(a, b, bias, out.value, parts.value, m, n, k, *strides, *shares),
        ACTIVATION=activation,
        SUMS=getattr(tl, sums.name),
        EVEN=k % config["BLOCK_K"] == 0,
        **options,
        **config,
    )
    if shared:
        rows = min(SUM_ROWS, block_m)
        launch(add_streams_kernel, (shared, block_m // rows))(
            *(parts.value, bias, out.value, m, n, strides[2], *shares),
            ACTIVATION=activation,
            ROWS=rows,
            **{name: config[name] for name in ("BLOCK_M", "BLOCK_N", "GROUP")},
        )
