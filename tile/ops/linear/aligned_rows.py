"""Copies of operands of matmuls that TMA cannot load, with rows of multiples of 128 bytes.

Rows of 4097 16-bit elements can be loaded by single elements only. Copying them first reads and
writes an operand once, which pays where a matmul uses each element often.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.linear.few_tiles import is_aligned
from tile.ops.linear.strided import Strided

# Elements: TMA loads rows of 128 bytes, which lie in one line of the L2 cache each.
PITCH = 64
BLOCK, WARPS = 2048, 8  # of a program of copies
VECTOR = 4  # elements: the least multiple that launches tell compilation of
# Multiplications by each element of an operand that is copied, and all (docs/notes/ops.md).
LEAST, LEAST_WORK = {"nvptx": 32}, 2**25


@tile.jit
def copy_rows_kernel(
    source_ptr,
    copy_ptr,
    length,
    source_batch,
    source_row,
    source_step,
    copy_batch,
    copy_row,
    PAIRS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy a block of a row, and write zeros past its end; strides are in elements.

    PAIRS: elements are loaded one by one. Those of even and of odd numbers are two tiles, so that
    wide stores are worth an exchange between threads.
    """
    row, batch = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    first = tl.program_id(1) * BLOCK
    source_ptr += batch * source_batch + row * source_row + first.to(tl.int64) * source_step
    copy_ptr += batch * copy_batch + row * copy_row + first
    element, left = tl.arange(0, BLOCK), length - first
    if PAIRS:
        even = 2 * tl.arange(0, BLOCK // 2)
        x = tl.load(source_ptr + even.to(tl.int64) * source_step, mask=even < left, other=0.0)
        odd = even + 1
        y = tl.load(source_ptr + odd.to(tl.int64) * source_step, mask=odd < left, other=0.0)
        x = tl.join(x, y).reshape(BLOCK)
    else:
        x = tl.load(source_ptr + element, mask=element < left, other=0.0)
    tl.store(copy_ptr + element, x, mask=element < copy_row - first)


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
    return _aligned(call, dtype, a, (batches, m, k)), _aligned(call, dtype, b, (batches, k, n))


def _aligned(call: Call, dtype: DType, one: Strided, shape: tuple[int, int, int]) -> Strided:
    """Return matrices of this shape, or if TMA cannot load them, a copy along the same axis."""
    if is_aligned(one.strides):
        return one
    batches, rows, columns = shape
    batch, row, step = one.strides
    by_columns = abs(row) < abs(step)
    if by_columns:
        rows, columns, row, step = columns, rows, step, row
    pitch = tile.cdiv(columns, PITCH) * PITCH
    batches = batches if batch else 1
    copy = call.new((batches, rows, pitch), dtype)
    launch(copy_rows_kernel, (rows, tile.cdiv(pitch, BLOCK), batches))(
        *(one.value, copy.value, columns, batch, row, step, rows * pitch, pitch),
        PAIRS=step != 1 or row % VECTOR != 0 or columns % VECTOR != 0,
        BLOCK=BLOCK,
        num_warps=WARPS,
        launch_pdl=True,
    )
    copied = Strided(copy.value, (rows * pitch if batch else 0, pitch, 1))
    return copied.transposed() if by_columns else copied
