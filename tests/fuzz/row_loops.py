"""Loops over rows, block by block, as TorchInductor and norms write them, varied in all that passes look at.

A program takes some rows. A loop reduces them, and another one reads them again and stores what it
makes of each element. Blocks, bounds, masks, indices, eviction priorities and the way in which
pointers advance vary. Elements are small integers, so that every order of summation gives the same;
quotients of floats may be off by some ulp.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tile
import tile.language as tl
from tests.fuzz import jitted
from tests.fuzz.generate import Case
from tests.fuzz.writer import Pick

FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)
OUTS = (*FLOATS, np.int32, np.int16)
DTYPES = (*OUTS, np.int8)
WIDTHS = (1, 2, 3, 7, 8, 16, 30, 64)
GATHERED = 64  # elements of an array that is read by index
ROW_BLOCKS, COLUMN_BLOCKS = (1, 2, 4), (8, 16, 64, 128, 256, 512, 1024)
MOST = 1024  # elements of a tile
BLOCKS_OF_A_ROW = 6  # at most


@dataclass(frozen=True)
class RowLoops:
    """The constants of the kernel below."""

    ROWS: int
    BLOCK: int
    COLUMNS: int  # 0: an argument
    BEGIN: int  # of the columns; -1: an argument
    WIDTH: int  # 0: an argument
    FORM: int  # how loops count: 0 by columns, 1 by blocks, 2 by columns with carried pointers, 3 while
    FIRST: int  # 0: sums, 1: maxima, 2: both, 3: sums taken in the loop, 4: where the maxima are
    SECOND: int  # 0: differences, 1: quotients, 2: a choice, 3: other columns, 4: sums of columns
    INDEX: (
        int  # of another array: 0 none, 1 columns, 2 // width, 3 % width, 4 rows, 5 gathered, 6 ^
    )
    MASK: int  # 0: rows and columns, 1: rows and columns with `other`, 2: none
    EVICTION: str
    UNROLL: int
    STAGES: int
    PERSISTENT: bool
    WIDE: bool  # indices of 64 bits
    BRANCH: bool  # the second loop stores in a branch

    @classmethod
    def draw(cls, pick: Pick) -> RowLoops:
        """Return one whose tiles have at most `MOST` elements."""
        rows = ROW_BLOCKS[pick(len(ROW_BLOCKS))]
        block = min(COLUMN_BLOCKS[pick(len(COLUMN_BLOCKS))], MOST // rows)
        return cls(
            ROWS=rows,
            BLOCK=block,
            COLUMNS=pick(2) * (1 + pick(BLOCKS_OF_A_ROW * block)),
            BEGIN=pick(2) - 1,
            WIDTH=pick(2) * WIDTHS[pick(len(WIDTHS))],
            FORM=pick(4),
            FIRST=pick(5),
            SECOND=pick(5),
            INDEX=pick(7),
            MASK=pick(3),
            EVICTION=("", "evict_first", "evict_last")[pick(3)],
            UNROLL=(1, 1, 2, 4)[pick(4)],
            STAGES=pick(4),
            PERSISTENT=pick(3) == 0,
            WIDE=pick(3) == 0,
            BRANCH=pick(4) == 0,
        )


@tile.jit
def element(
    pointers, bias_ptr, index_ptr, row, column, inside, width,
    WIDTH: tl.constexpr, INDEX: tl.constexpr, MASK: tl.constexpr, EVICTION: tl.constexpr,
    SUM: tl.constexpr,
):  # fmt: skip
    """A tile of elements with an element of another array added, 0 where it is masked."""
    if MASK == 2:
        x = tl.load(pointers, eviction_policy=EVICTION)
    elif MASK == 1:
        x = tl.load(pointers, mask=inside, other=0, eviction_policy=EVICTION)
    else:
        x = tl.load(pointers, mask=inside, eviction_policy=EVICTION)
    wide = x.to(SUM)
    divisor = WIDTH if WIDTH > 0 else width
    if INDEX == 1:
        wide += tl.load(bias_ptr + column, mask=inside).to(SUM)
    elif INDEX == 2:
        wide += tl.load(bias_ptr + column // divisor, mask=inside).to(SUM)
    elif INDEX == 3:
        wide += tl.load(bias_ptr + column % divisor, mask=inside).to(SUM)
    elif INDEX == 4:
        wide += tl.load(bias_ptr + row, mask=inside).to(SUM)
    elif INDEX == 5:
        wide += tl.load(bias_ptr + tl.load(index_ptr + column, mask=inside), mask=inside).to(SUM)
    elif INDEX == 6:
        wide += tl.load(bias_ptr + (column ^ 5), mask=inside).to(SUM)
    return tl.where(inside, wide, 0)


@tile.jit
def changed(most, sums, places, x, column, FIRST: tl.constexpr):
    """The partial results of a tile's elements, after `x`."""
    if FIRST == 0 or FIRST == 2:
        sums += x
    if FIRST == 3:
        sums += tl.sum(x, axis=1)[:, None]
    if FIRST == 4:
        places = tl.where(x > most, column.to(tl.int32), places)
    if FIRST == 1 or FIRST == 2 or FIRST == 4:
        most = tl.maximum(most, x)
    return most, sums, places


@tile.jit
def stored(
    out_ptr, columns_ptr, out_at, row, column, inside, x, most, total,
    SECOND: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """Store what becomes of the elements."""
    if SECOND == 0:
        value = x - most
    elif SECOND == 1:
        value = x.to(tl.float32) / (tl.abs(total) + 1).to(tl.float32)
    elif SECOND == 2:
        value = tl.where(x > most - 2, x * 2, total)
    else:
        value = x + total
    if SECOND == 3:
        tl.store(out_ptr + (out_at ^ 1), value.to(out_ptr.dtype.element_ty), mask=inside)
    elif BRANCH:
        if tl.max(tl.max(x, axis=1), axis=0) > 1:
            tl.store(out_ptr + out_at, value.to(out_ptr.dtype.element_ty), mask=inside)
    else:
        tl.store(out_ptr + out_at, value.to(out_ptr.dtype.element_ty), mask=inside)
    if SECOND == 4:
        tl.atomic_add(columns_ptr + (column + row * 0), x.to(tl.int32), mask=inside)


@tile.jit
def some_rows(
    x_ptr, bias_ptr, index_ptr, out_ptr, sums_ptr, columns_ptr,
    rows, begin, columns, stride, width, start,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, BEGIN: tl.constexpr,
    WIDTH: tl.constexpr, FORM: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    INDEX: tl.constexpr, MASK: tl.constexpr, EVICTION: tl.constexpr, UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
    WIDE: tl.constexpr, BRANCH: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Both loops over the rows from `start` on."""
    count = COLUMNS if COLUMNS > 0 else columns
    lower = BEGIN if BEGIN >= 0 else begin
    row = start + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, BLOCK)[None, :]
    if WIDE:
        row = row.to(tl.int64)
    most = tl.full((ROWS, BLOCK), -100, SUM)
    sums = tl.zeros((ROWS, BLOCK), SUM)
    places = tl.full((ROWS, BLOCK), 0, tl.int32)
    stages: tl.constexpr = STAGES if STAGES > 0 else None
    if FORM == 0:
        for first in tl.range(lower, count, BLOCK, num_stages=stages, loop_unroll_factor=UNROLL):
            column = first + lane
            inside = (row < rows) & (column < count)
            x = element(x_ptr + row * stride + column, bias_ptr, index_ptr, row, column, inside,
                        width, WIDTH, INDEX, MASK, EVICTION, SUM)  # fmt: skip
            most, sums, places = changed(most, sums, places, x, column, FIRST)
    elif FORM == 1:
        for block in tl.range(tl.cdiv(count, BLOCK), num_stages=stages, loop_unroll_factor=UNROLL):
            column = block * BLOCK + lane
            inside = (row < rows) & (column < count)
            x = element(x_ptr + row * stride + column, bias_ptr, index_ptr, row, column, inside,
                        width, WIDTH, INDEX, MASK, EVICTION, SUM)  # fmt: skip
            most, sums, places = changed(most, sums, places, x, column, FIRST)
    elif FORM == 2:
        pointers = x_ptr + row * stride + lower + lane
        for first in tl.range(lower, count, BLOCK, num_stages=stages, loop_unroll_factor=UNROLL):
            column = first + lane
            inside = (row < rows) & (column < count)
            x = element(pointers, bias_ptr, index_ptr, row, column, inside,
                        width, WIDTH, INDEX, MASK, EVICTION, SUM)  # fmt: skip
            most, sums, places = changed(most, sums, places, x, column, FIRST)
            pointers += BLOCK
    else:
        first = lower + 0
        while first < count:
            column = first + lane
            inside = (row < rows) & (column < count)
            x = element(x_ptr + row * stride + column, bias_ptr, index_ptr, row, column, inside,
                        width, WIDTH, INDEX, MASK, EVICTION, SUM)  # fmt: skip
            most, sums, places = changed(most, sums, places, x, column, FIRST)
            first += BLOCK
    greatest = tl.max(most, axis=1)[:, None]
    if FIRST == 3:
        total = tl.max(sums, axis=1)[:, None]
    else:
        total = tl.sum(sums, axis=1)[:, None]
    if FIRST == 4:
        here = tl.where(most == greatest, places, stride)
        total = tl.min(here, axis=1)[:, None].to(SUM)
    tl.store(sums_ptr + row, total.to(tl.float32), mask=row < rows)
    for first in tl.range(lower, count, BLOCK, num_stages=stages):
        column = first + lane
        inside = (row < rows) & (column < count)
        at = row * stride + column
        x = element(x_ptr + at, bias_ptr, index_ptr, row, column, inside,
                    width, WIDTH, INDEX, MASK, EVICTION, SUM)  # fmt: skip
        stored(out_ptr, columns_ptr, at, row, column, inside, x, greatest, total, SECOND, BRANCH)


@tile.jit
def row_loops(
    x_ptr, bias_ptr, index_ptr, out_ptr, sums_ptr, columns_ptr, rows, begin, columns, stride, width,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr, BEGIN: tl.constexpr,
    WIDTH: tl.constexpr, FORM: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    INDEX: tl.constexpr, MASK: tl.constexpr, EVICTION: tl.constexpr, UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
    PERSISTENT: tl.constexpr, WIDE: tl.constexpr, BRANCH: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """See the top."""
    if PERSISTENT:
        for block in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
            some_rows(x_ptr, bias_ptr, index_ptr, out_ptr, sums_ptr, columns_ptr,
                      rows, begin, columns, stride, width, block * ROWS, ROWS, BLOCK, COLUMNS,
                      BEGIN, WIDTH, FORM, FIRST, SECOND, INDEX, MASK, EVICTION, UNROLL, STAGES,
                      WIDE, BRANCH, SUM)  # fmt: skip
    else:
        some_rows(x_ptr, bias_ptr, index_ptr, out_ptr, sums_ptr, columns_ptr,
                  rows, begin, columns, stride, width, tl.program_id(0) * ROWS, ROWS, BLOCK,
                  COLUMNS, BEGIN, WIDTH, FORM, FIRST, SECOND, INDEX, MASK, EVICTION, UNROLL, STAGES,
                  WIDE, BRANCH, SUM)  # fmt: skip


def make(pick: Pick) -> Case:
    """Return a kernel with its grid and arguments, as `pick` chooses."""
    options = RowLoops.draw(pick)
    rows = 1 + pick(9)
    columns = options.COLUMNS or pick(1 + BLOCKS_OF_A_ROW * options.BLOCK)
    begin = pick(3) * pick(2 * options.BLOCK)
    # Whole blocks can be read and written.
    stride = -(-max(columns, 1) // options.BLOCK) * options.BLOCK + 4 * options.BLOCK
    rng = np.random.default_rng(pick(1000))
    height = -(-rows // options.ROWS) * options.ROWS
    dtype = DTYPES[pick(len(DTYPES))]
    outs = FLOATS if options.SECOND == 1 else OUTS
    programs = 1 + pick(3) if options.PERSISTENT else height // options.ROWS
    arguments: dict[str, Any] = {
        "x_ptr": rng.integers(-2, 3, (height, stride)).astype(dtype),
        "bias_ptr": rng.integers(-2, 3, max(stride + 8, rows, GATHERED)).astype(dtype),
        "index_ptr": rng.integers(0, GATHERED, stride).astype(np.int32),
        "out_ptr": rng.integers(-2, 3, (height, stride)).astype(outs[pick(len(outs))]),
        "sums_ptr": np.zeros(rows, np.float32),
        "columns_ptr": np.zeros(stride, np.int32),
        "rows": np.int32(rows),
        "begin": np.int32(begin),
        "columns": np.int32(columns),
        "stride": np.int32(stride),
        "width": np.int32(WIDTHS[pick(len(WIDTHS))]),
    }
    constants = asdict(options) | {"SUM": tl.int32 if np.dtype(dtype).kind == "i" else tl.float32}
    loose = frozenset({"out_ptr"} if options.SECOND == 1 else ())
    return jitted.case(row_loops, (programs, 1, 1), arguments, constants, loose)
