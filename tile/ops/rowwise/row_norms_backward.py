"""The gradients of layer and RMS normalization.

The backward pass computes mean and rstd anew, unless it is given them: it must read x anyway. It
needs one exchange less between the threads of a program if it is given the mean, so autograd stores
the statistics of layer norm: 4096 x 32768 takes 196 us in place of 229, 4096 x 4096 29 (H200,
float16, 2026-11-30). RMS norm gains nothing.

Its programs each take every n-th row and keep their sums for dweight and dbias in registers
(row_norm_gradient.py); a second kernel adds up the sums of all.
"""

from __future__ import annotations

import itertools
from typing import Any

import tile
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.operand import Operand
from tile.ops.core.row_tiles import row_tile
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.described_rows import described_rows, shared_rows
from tile.ops.rowwise.few_rows_backward import few_rows_backward
from tile.ops.rowwise.row_norm_gradient import row_norm_backward_kernel
from tile.ops.rowwise.row_norms import LONGEST, require_block
from tile.ops.rowwise.row_sums import SAMPLE
from tile.ops.rowwise.tiled_rows import tiled_rows

# Of a tile of short rows, if each program has FEWEST_TILES of those: the gradient of layer norm of
# 16384 x 2048 takes 55 us, by 2048 elements 67, but that of 1000 x 2048 9.6 and 8.3.
ELEMENTS = 4096
FEWEST_TILES = 4
# By the elements of a tile: 16 for each thread, but 32 of 16384. H200, 2026-11-30.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (2048,): {"num_warps": 4},
            (4096,): {"num_warps": 8, "maxnreg": 128},  # two programs on a multiprocessor
            (16384,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)
# Elements of blocks of layer norm whose statistics are computed by a sample, if they have 16 bits:
# 8192 x 8192 107 us, without 114; of 8192 x 16384 240 and 217; and those of rows of ELEMENTS that
# TMA copies: 4096 x 4096 29.3 us, copied by threads 30.6 (H200, 2026-11-30).
SAMPLED = 8192
# Rows of RMS norm that are loaded two iterations early, given rstd: 8192 x 16384 197 us, one 209.
# If rstd is computed, two are slower, 213 and 210 (H200, 2026-11-30).
DEEP = range(8193, 16385)
FEW = 264  # rows that programs share, if statistics are given
# Programs of the backward pass, by the elements of a tile: as many as an H200 runs at a time.
PROGRAMS = Table({(4096,): {"programs": 264}, (ANY,): {"programs": 132}}, {})


def row_norm_backward(
    op: str, dy: Any, x: Any, weight: Any, eps: float, statistics: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the gradients of x and weight, and of the bias if centered.

    statistics: rstd, and the mean if centered; None computes them anew.
    """
    call = Call(op)
    source = call.array("x", x)
    gradient = call.array("dy", dy, dtypes=(source.dtype,), shape=source.shape)
    length = source.shape[-1]
    (weights,) = call.vectors(length, weight=weight)
    eps = call.number("eps", eps, low=0)
    if len({value is None for value in statistics.values()}) > 1:
        raise ArgumentValueError(f"{op}: `mean` and `rstd` are given together")
    leading, kind = source.shape[:-1], accumulator(source.dtype)
    for name, value in statistics.items():
        if value is not None:
            shape, rank = leading, len(leading)
            call.array(name, value, dtypes=(kind,), rank=rank, shape=shape).contiguous()
    require_block(op, length)
    rows, dy_rows = source.rows(), gradient.rows()
    dx = call.new(source.shape, source.dtype)
    centered = "mean" in statistics
    count = 2 if centered else 1
    sums = [call.new((length,), weights.dtype) for _ in range(count)]
    if statistics["rstd"] is not None and 0 < rows.count <= FEW and length:
        arrays = (dy, x, weight, statistics.get("mean"), statistics["rstd"])
        few_rows_backward(call, arrays, rows, dy_rows.stride, dx, kind, sums)
        return (dx.value, *(each.value for each in sums))
    has_statistics = statistics["rstd"] is not None
    count_programs, size, constants = _programs(call, source, gradient, centered, has_statistics)
    parts = [call.new((count_programs, length), kind) for _ in range(count)]
    if rows.count and length:
        launch(row_norm_backward_kernel, (count_programs * size,), dependent=True)(
            *(dy, x, weight, statistics.get("mean"), statistics["rstd"]),
            *(dx.value, parts[0].value, parts[1].value if centered else None),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            CENTERED=centered,
            EPS=eps,
            **constants,
        )
    if length:
        column_sums(*itertools.chain.from_iterable(zip(parts, sums, strict=True)))
    return (dx.value, *(each.value for each in sums))


def _programs(
    call: Call, x: Operand, dy: Operand, centered: bool, has_statistics: bool
) -> tuple[int, int, dict[str, Any]]:
    """Return how many programs, or clusters, have shares of the rows, and the size of a cluster.

    And the constants and options of their launch.
    """
    rows, length, is_short = x.rows(), x.shape[-1], x.dtype.itemsize == 2
    is_small = rows.count * length < FEWEST_TILES * FEW * ELEMENTS
    elements = ELEMENTS // 2 if is_small else ELEMENTS
    tiles = row_tile(call.backend, rows, LONGEST, elements, WARPS)
    is_sampled = is_short and ELEMENTS < tiles["BLOCK"] <= SAMPLED
    is_whole = length == tiles["BLOCK"]
    choose = described_rows if is_whole else shared_rows
    kinds = {"centered": centered, "has_statistics": has_statistics}
    config = dict(choose(call, x, dy, **kinds))
    is_described, size = is_whole and bool(config), config.get("SIZE", 1)
    if size > 1:
        block = tile.next_power_of_2(length // size)
        shares = {"SIZE": size, "SPAN": length // size, "num_ctas": size}
        tiles = {"ROWS": 1, "BLOCK": block, **WARPS.select(call.backend, block), **shares}
        is_sampled = is_short and is_described  # 4096 x 32768 231 us, without 256
    elif is_described:
        is_sampled = is_short and ELEMENTS <= length <= SAMPLED
    elif not config and (config := tiled_rows(call, x, dy, **kinds)):
        is_described, is_sampled = config.pop("DESCRIBED"), config.pop("SAMPLED")
        is_whole = length == config["TILES"] * config["BLOCK"]
        tiles = {name: config[name] for name in config if name not in ("STAGES", "programs")}
    count_tiles = tile.cdiv(rows.count, tiles["ROWS"])
    if config:
        programs = min(config["programs"] // size, count_tiles)
    else:
        most = PROGRAMS.select(call.backend, tiles["ROWS"] * tiles["BLOCK"])["programs"]
        iterations = max(1, tile.cdiv(count_tiles, most))
        programs = tile.cdiv(count_tiles, iterations)  # no more than take as many
    is_deep = has_statistics and not centered and length in DEEP
    return (
        programs,
        size,
        {
            "SAMPLE": SAMPLE if is_sampled else 0,
            "WHOLE": is_whole,
            "STAGES": config["STAGES"] if config else 3 if is_deep else 2,
            "DESCRIBED": is_described,
            "tma": "pointers+strips" if is_described else None,
            **tiles,
        },
    )
