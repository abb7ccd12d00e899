"""Copies of operands of matmuls that TMA cannot load, with rows of multiples of 128 bytes.

Rows of 4097 16-bit elements can be loaded by single elements only. Copying them first reads and
writes an operand once, which pays where a matmul uses each element often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.linear.alignment import is_aligned
from tile.ops.linear.strided import Strided

# Elements: TMA loads rows of 128 bytes, which lie in one line of the L2 cache each.
PITCH = 64
BLOCK, WARPS = 2048, 8  # of a program of copies: elements of a row, or of several
VECTOR = 4  # elements: the least multiple that launches tell compilation of
# Multiplications by each element of an operand that is copied, and all (docs/notes/ops.md).
LEAST, LEAST_WORK = {"nvptx": 32}, 2**25


@tile.jit
def copy_block(matrices, program, PAIRS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Copy a block of some rows, and write zeros past their ends; strides are in elements.

    PAIRS: elements are loaded one by one. Those of even and of odd numbers are two tiles, so that
    wide stores are worth an exchange between threads.
    """
    source, copy, lines, rows, length, source_batch, source_row, source_step, copy_row = matrices
    blocks = tl.cdiv(copy_row, BLOCK)
    first = program % blocks * BLOCK
    line = (program // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    inside = line < lines
    batch, row = line // rows, line % rows
    source += batch.to(tl.int64) * source_batch + row.to(tl.int64) * source_row
    source += first.to(tl.int64) * source_step
    copy += line.to(tl.int64) * copy_row + first
    element, left = tl.arange(0, BLOCK)[None, :], length - first
    if PAIRS:
        even = 2 * tl.arange(0, BLOCK // 2)[None, :]
        x = tl.load(source + even.to(tl.int64) * source_step, inside & (even < left), 0.0)
        odd = even + 1
        y = tl.load(source + odd.to(tl.int64) * source_step, inside & (odd < left), 0.0)
        x = tl.join(x, y).reshape(ROWS, BLOCK)
    else:
        x = tl.load(source + element, inside & (element < left), 0.0)
    tl.store(copy + element, x, inside & (element < copy_row - first))


@tile.jit
def copy_rows_kernel(
    one,
    other,
    one_programs,
    ONE_PAIRS: tl.constexpr,
    OTHER_PAIRS: tl.constexpr,
    ONE_ROWS: tl.constexpr,
    OTHER_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy a block of rows of one operand, or of the other."""
    program = tl.program_id(0)
    if other is None or program < one_programs:
        copy_block(one, program, ONE_PAIRS, ONE_ROWS, BLOCK // ONE_ROWS)
    else:
        copy_block(other, program - one_programs, OTHER_PAIRS, OTHER_ROWS, BLOCK // OTHER_ROWS)


@dataclass(frozen=True)
class _Copy:
    """A copy of matrices along the same axis, and the matrices that it is as an operand."""

    operand: Strided
    arguments: tuple[Any, ...]
    programs: int
    pairs: bool
    rows: int  # of a program


def aligned_operands(
    call: Call, dtype: DType, a: Strided, b: Strided, sizes: tuple[int, int, int, int]
) -> tuple[Strided, Strided]:
    """Return the operands of a matmul, or copies that TMA can load if these pay.

    sizes: batches, M, N and K.
    """
    batches, m, n, k = sizes
    uses = [count for one, count in ((a, n), (b, m)) if not is_aligned(one.strides)]
    least = LEAST.get(call.backend)
    if dtype.itemsize != 2 or least is None or min(uses, default=0) < least:
        return a, b
    if batches * m * n * k < LEAST_WORK:
        return a, b
    extents = ((a, (batches, m, k)), (b, (batches, k, n)))
    copies = [None if is_aligned(x.strides) else _copy(call, dtype, x, e) for x, e in extents]
    _launch([copy for copy in copies if copy])
    left, right = (copy.operand if copy else one for copy, one in zip(copies, (a, b), strict=True))
    return left, right


def _copy(call: Call, dtype: DType, one: Strided, shape: tuple[int, int, int]) -> _Copy:
    """Return a new array for a copy of matrices of this shape."""
    batches, rows, columns = shape
    batch, row, step = one.strides
    by_columns = abs(row) < abs(step)
    if by_columns:
        rows, columns, row, step = columns, rows, step, row
    pitch = tile.cdiv(columns, PITCH) * PITCH
    batches = batches if batch else 1
    copy = call.new((batches, rows, pitch), dtype)
    copied = Strided(copy.value, (rows * pitch if batch else 0, pitch, 1))
    lines, at_once = batches * rows, max(1, BLOCK // tile.next_power_of_2(pitch))
    return _Copy(
        copied.transposed() if by_columns else copied,
        (one.value, copy.value, lines, rows, columns, batch, row, step, pitch),
        tile.cdiv(lines, at_once) * tile.cdiv(pitch, BLOCK),
        step != 1 or row % VECTOR != 0 or columns % VECTOR != 0,
        at_once,
    )


def _launch(copies: Sequence[_Copy]) -> None:
    """Copy one or two operands by one launch."""
    one, *others = copies
    other = others[0] if others else None
    launch(copy_rows_kernel, (sum(copy.programs for copy in copies),), dependent=True)(
        *(one.arguments, other.arguments if other else None, one.programs),
        ONE_PAIRS=one.pairs,
        OTHER_PAIRS=bool(other and other.pairs),
        ONE_ROWS=one.rows,
        OTHER_ROWS=other.rows if other else 1,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
