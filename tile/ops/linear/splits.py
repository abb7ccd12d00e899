"""Matmuls whose inner axis is split among programs, for results with few tiles.

Each program adds up a part of the inner axis and stores its sums, splits x batches x M x N. A
second kernel adds up the parts in a fixed order, so that results are the same in every run, which
they would not be with atomic additions; bias and activation follow there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import PROGRAMS

# By splits, rows and columns. PARTS: those of a tile, whose rows are added up at the end; UNROLL:
# tiles that are loaded at a time. H200, 9 shapes, 2026-11-26; more than 16 parts are not measured.
# 512 x 512 x 16384 takes 18.8 us with 8 parts loaded at a time, 20.6 with 4 (2026-11-29).
TABLE = Table(
    {(ANY, ANY, ANY): {"PARTS": 1, "BLOCK": 1024, "UNROLL": 4}},
    {
        "nvptx": {
            (7, 1, ANY): {"PARTS": 1, "BLOCK": 128, "UNROLL": 4},
            (7, 64, ANY): {"PARTS": 1, "BLOCK": 256, "UNROLL": 4},
            (7, ANY, ANY): {"PARTS": 1, "BLOCK": 1024, "UNROLL": 4},
            (16, 64, ANY): {"PARTS": 1, "BLOCK": 256, "UNROLL": 8},
            (16, ANY, ANY): {"PARTS": 1, "BLOCK": 512, "UNROLL": 8},
            (ANY, 1, ANY): {"PARTS": 32, "BLOCK": 64, "UNROLL": 1},
            (ANY, 64, ANY): {"PARTS": 1, "BLOCK": 256, "UNROLL": 8},
            (ANY, ANY, ANY): {"PARTS": 1, "BLOCK": 1024, "UNROLL": 4},
        }
    },
)
MOST_UNTILED, MOST_FLAT = 16, 2**21  # parts, and elements of a result whose rows are added as one


@tile.jit
def add_splits_kernel(
    parts_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    batches,
    splits,
    out_batch,
    out_row,
    out_column,
    ACTIVATION: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNROLL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    batch = row // M
    part = tl.arange(0, PARTS)[:, None]
    totals = tl.zeros((PARTS, BLOCK), dtype=parts_ptr.dtype.element_ty)
    # Loads of several tiles are in flight at a time.
    for first in tl.range(0, splits, PARTS, loop_unroll_factor=UNROLL):
        at = ((first + part).to(tl.int64) * batches * M + row) * N + column[None, :]
        inside = (first + part < splits) & (column < N)[None, :]
        totals += tl.load(parts_ptr + at, mask=inside, other=0.0)
    total = tl.sum(totals, axis=0)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < N, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    out = out_ptr + batch * out_batch + row % M * out_row + column * out_column
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=column < N)


def check_splits(call: Call, splits: int | None) -> None:
    """Raise `ArgumentValueError` unless `splits` is None or 1 or more."""
    if splits is not None:
        call.integer("splits", splits, low=1)


def splits_of(
    call: Call, splits: int | None, tiles: int, steps: int, least: int = 4, fewest: int = 1
) -> int:
    """Return how many programs share the inner axis of a tile, of `steps` iterations.

    Enough that all multiprocessors have work, with at least `least` iterations each; one, if
    fewer than `fewest` are enough.
    """
    if splits is None:
        wanted = PROGRAMS.get(call.backend, 1) // max(tiles, 1)
        return max(1, min(wanted, steps // least)) if wanted >= fewest else 1
    return max(1, min(splits, steps))


def add_splits(
    call: Call,
    parts: Operand,
    out: Any,
    strides: tuple[int, int, int],
    batches: int = 1,
    bias: Any = None,
    function: Any = None,
) -> None:
    """Write function(sums of `parts` + bias) to `out`; parts are splits x rows x columns.

    strides: of `out`, of a batch, row and column. batches: they divide the rows.
    """
    splits, rows, columns = parts.shape
    config = dict(TABLE.select(call.backend, splits, rows, columns))
    regular = batches == 1 or strides[0] == rows // batches * columns
    contiguous = regular and strides[1:] == (columns, 1)
    if columns < config["BLOCK"] and contiguous and bias is None and rows * columns <= MOST_FLAT:
        rows, columns, batches, strides = 1, rows * columns, 1, (0, rows * columns, 1)
    block = min(config.pop("BLOCK"), tile.next_power_of_2(columns))
    launch(add_splits_kernel, (rows, tile.cdiv(columns, block)), dependent=True)(
        *(parts.value, bias, out, rows // batches, columns, batches, splits, *strides),
        ACTIVATION=function,
        BLOCK=block,
        **config,
    )


def add_contiguous_splits(call: Call, parts: Operand, out: Operand) -> None:
    """Write the sums of `parts`, splits x rows x columns, to `out`; both are contiguous."""
    splits, rows, columns = parts.shape
    if splits > MOST_UNTILED and rows * columns <= MOST_FLAT:
        parts = replace(parts, shape=(splits, 1, rows * columns))
    add_splits(call, parts, out.value, (0, parts.shape[2], 1))
