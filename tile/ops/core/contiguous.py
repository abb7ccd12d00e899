"""Contiguous arrays as vectors: all elements set to zero, or converted to another type."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.operand import Operand

ELEMENTS = 4096  # of a program


@tile.jit
def clear_kernel(y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.zeros((BLOCK,), y_ptr.dtype.element_ty), mask=at < n)


@tile.jit
def convert_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


def clear(y: Operand) -> None:
    """Set the elements of `y`, which has some, to zero."""
    launch(clear_kernel, (tile.cdiv(y.size, ELEMENTS),))(y.value, y.size, BLOCK=ELEMENTS)


def convert(x: Operand, y: Operand) -> None:
    """Write the elements of `x`, which has some, to `y`, in its type."""
    launch(convert_kernel, (tile.cdiv(x.size, ELEMENTS),))(x.value, y.value, x.size, BLOCK=ELEMENTS)
