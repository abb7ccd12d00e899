"""Softmax of rows that a program reads three times: for the maximum, the sum and the results.

Rows of 16-bit elements are too long for registers as float32. The compiler keeps them in shared
memory, so that three programs are on a multiprocessor. exp2(d * log2(e)) has an error of about
|d| * 2^-24, far below that of the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.operand import Operand
from tile.ops.core.tables import ANY, Bounds, Configuration, Table

VECTOR = 8  # elements of 16 bits of which rows consist, and their starts are multiples
LOG2_E = tl.constexpr(1.4426950408889634)
# By the length and the bytes of an element; an empty entry is for other kernels. H200, 2026-11-30,
# us: 4096 x 32000 129.5, by blocks that are read twice 150; x 20000 85.4 and 95.9, x 17408 82 and
# 89; 4096 x 32000 bfloat16 129.6 and 150.9.
_STAGED: Mapping[Bounds, Configuration] = {
    (16384, ANY): {},
    (32768, 2): {"BLOCK": 32768},
    (ANY, ANY): {},
}
TILES = Table(
    {(ANY, ANY): {}},
    {
        "interp": _STAGED,
        "nvptx": {
            key: {**tiles, "num_warps": 8, "maxnreg": 80} if tiles else {}
            for key, tiles in _STAGED.items()
        },
    },
)


def staged_tiles(backend: str, x: Operand, *strides: int) -> dict[str, Any]:
    """Return the options of a program that holds a row of `x`; {} if it should not."""
    length = x.shape[-1]
    if any(number % VECTOR for number in (length, *strides)):
        return {}
    return dict(TILES.select(backend, length, x.dtype.itemsize))


@tile.jit
def staged_softmax_kernel(
    x_ptr, y_ptr, x_stride, y_stride, length, LOG: tl.constexpr, BLOCK: tl.constexpr
):
    column = tl.arange(0, BLOCK)
    inside = column < length
    row = tl.program_id(0).to(tl.int64)
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0)
    # Masks are alike for the elements of a vector: one selection for each, in place of one for each
    # element. Elements past the end do not change the maximum, and exp2 makes them 0.
    past = tl.where(inside, 0.0, -float("inf")).to(x.dtype)
    most = tl.max(x + past, axis=0).to(tl.float32)
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    x = x.to(tl.float32) - tl.where(inside, most, float("inf"))
    total = tl.sum(tl.exp2(x * LOG2_E), axis=0)
    y = x - tl.log(total) if LOG else tl.exp2(x * LOG2_E - tl.log2(total))
    tl.store(y_ptr + row * y_stride + column, y, mask=inside)
