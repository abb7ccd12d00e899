"""Kernels that the tests of `tile.torch` launch."""

import tile
import tile.language as tl


@tile.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n, other=0.0)
    tl.store(out_ptr + i, x + tl.load(y_ptr + i, i < n, other=0.0), i < n)


@tile.jit
def scale(x_ptr, out_ptr, n, factor, negate, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n, other=0.0) * factor
    tl.store(out_ptr + i, tl.where(negate, -x, x), i < n)


@tile.jit
def sine(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sin(tl.load(x_ptr + i, i < n, other=0.0)), i < n)


@tile.jit
def cosine_times(x_ptr, grad_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cosine = tl.cos(tl.load(x_ptr + i, i < n, other=0.0))
    tl.store(out_ptr + i, cosine * tl.load(grad_ptr + i, i < n, other=0.0), i < n)
