"""Promises to the compiler that are false for some program."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32 = np.float32


@tile.jit
def with_stride(x_ptr, o_ptr, stride, B: tl.constexpr, D: tl.constexpr):
    s = tl.multiple_of(stride, D)  # fault
    i = tl.arange(0, B)
    tl.store(o_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + tl.program_id(0) * s + i))


@planted("assume", "a stride that is no multiple", program=(0, 0, 0), element=())
def wrong_multiple(bug):
    with_stride[(2,)](np.zeros(64, F32), np.zeros(16, F32), 12 if bug else 16, B=8, D=8)


@tile.jit
def from_start(x_ptr, o_ptr, step, B: tl.constexpr):
    start = tl.multiple_of(tl.program_id(0) * step, 8)  # fault
    i = tl.arange(0, B)
    tl.store(o_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + start + i))


@planted("assume", "true of the first program alone", program=(1, 0, 0), element=())
def multiple_of_some(bug):
    from_start[(4,)](np.zeros(64, F32), np.zeros(32, F32), 6 if bug else 8, B=8)


@tile.jit
def offsets(x_ptr, index_ptr, o_ptr, KIND: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index_ptr + tl.program_id(0) * B + i)
    if KIND == "contiguous":
        at = tl.max_contiguous(at, N)  # fault
    elif KIND == "constant":
        at = tl.max_constancy(at, N)  # fault
    else:
        at = tl.multiple_of(tl.max_contiguous(at, N), N)  # fault
    tl.store(o_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + at))


def _offsets(kind, index):
    index = np.asarray(index, np.int32)
    offsets[(2,)](np.zeros(64, F32), index, np.zeros(16, F32), KIND=kind, N=4, B=8)


@planted("assume", "runs that are not contiguous", program=(1, 0, 0), element=(2,))
def not_contiguous(bug):
    index = np.arange(16)
    index[10] += bug
    _offsets("contiguous", index)


@planted("assume", "runs that are not constant", program=(1, 0, 0), element=(5,))
def not_constant(bug):
    index = np.arange(16) // 4
    index[13] += bug
    index[14:16] += bug
    _offsets("constant", index)


@planted("assume", "runs that do not start at a multiple", program=(0, 0, 0), element=(0,))
def misaligned_runs(bug):
    _offsets("both", np.arange(16) + (2 if bug else 4))


@tile.jit
def assumes(x_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(pid * B < n)  # fault
    i = pid * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@planted("assume", "a program behind the end", program=(3, 0, 0), element=())
def false_for_the_last(bug):
    assumes[(4,)](np.zeros(32, F32), np.zeros(32, F32), 24 if bug else 32, B=8)


@tile.jit
def positive(x_ptr, o_ptr, stride, B: tl.constexpr):
    tl.assume(stride > 0)  # fault
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i * stride))


@planted("assume", "a stride that is not positive", program=(0, 0, 0), element=())
def stride_below_zero(bug):
    x = np.zeros(32, F32)
    positive[(1,)](x[::-2] if bug else x[::2], np.zeros(8, F32), -2 if bug else 2, B=8)


@tile.jit
def in_a_loop(x_ptr, o_ptr, n, step, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, n, step):
        total += tl.load(x_ptr + tl.multiple_of(k, 8) + i)  # fault
    tl.store(o_ptr + i, total)


@planted("assume", "false from the second round on", element=())
def false_in_a_loop(bug):
    in_a_loop[(1,)](np.zeros(64, F32), np.zeros(8, F32), 48, 12 if bug else 16, B=8)


@tile.jit
def tile_of_two_axes(x_ptr, o_ptr, n, B: tl.constexpr, D: tl.constexpr):
    r = tl.arange(0, B)[:, None]
    c = tl.arange(0, B)[None, :]
    at = tl.multiple_of(r * n + c, (1, D))  # fault
    tl.store(o_ptr + r * B + c, tl.load(x_ptr + at))


@planted("assume", "false along the second axis", element=(0, 1))
def second_axis(bug):
    x, out = np.zeros((8, 8), F32), np.zeros((8, 8), F32)
    tile_of_two_axes[(1,)](x, out, 8, B=8, D=2 if bug else 1)


@tile.jit
def aligned(x_ptr, o_ptr, shift, B: tl.constexpr):
    p = tl.multiple_of(x_ptr + shift, 16)  # fault
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(p + i))


@planted("assume", "a pointer that is not aligned", element=())
def misaligned_pointer(bug):
    aligned[(1,)](np.zeros(64, F32), np.zeros(8, F32), 3 if bug else 4, B=8)
