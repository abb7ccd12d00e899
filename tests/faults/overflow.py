"""Signed index arithmetic that wraps on its way to an address.

The arrays behind a correct index past 2^31 are as large as that, of memory that nobody touches.
"""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32, I8 = np.float32, np.int8
BEHIND = (1 << 31) + (1 << 20)


def large():
    """Over 2^31 bytes, whose pages come into being when they are touched."""
    return np.zeros(BEHIND, I8)


@tile.jit
def read_row(x_ptr, o_ptr, row, stride, B: tl.constexpr, BUG: tl.constexpr):
    r = row + tl.program_id(0)
    start = r * stride if BUG else r.to(tl.int64) * stride
    x = tl.load(x_ptr + start + tl.arange(0, B))  # fault
    tl.store(o_ptr + tl.program_id(0) * B + tl.arange(0, B), x)


@planted("overflow", "row times stride past 2^31", program=(1, 0, 0), element=(0,))
def row_times_stride(bug):
    read_row[(2,)](large(), np.zeros(16, I8), 32767, 1 << 16, B=8, BUG=bug)


@tile.jit
def read_block(x_ptr, o_ptr, first, B: tl.constexpr, BUG: tl.constexpr):
    pid = tl.program_id(0) + first
    i = pid * B + tl.arange(0, B) if BUG else pid.to(tl.int64) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)  # fault
    tl.store(o_ptr + tl.program_id(0) * B + tl.arange(0, B), x)


@planted("overflow", "program times block past 2^31", program=(1, 0, 0), element=(0,))
def program_times_block(bug):
    read_block[(2,)](large(), np.zeros(2048, I8), (1 << 21) - 1, B=1024, BUG=bug)


@tile.jit
def read_sum(x_ptr, o_ptr, a, b, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    at = a + b + i if BUG else a + i.to(tl.int64) + b
    tl.store(o_ptr + i, tl.load(x_ptr + at))  # fault


@planted("overflow", "a sum of two offsets past 2^31", element=(0,))
def sum_of_offsets(bug):
    half = (1 << 30) + 5
    read_sum[(1,)](large(), np.zeros(8, I8), half, half, B=8, BUG=bug)


@tile.jit
def walk(x_ptr, o_ptr, stride, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.int8)
    for k in range(n):
        start = k * stride if BUG else tl.cast(k, tl.int64) * stride
        total += tl.load(x_ptr + start + i)  # fault
    tl.store(o_ptr + i, total)


@planted("overflow", "a loop that walks past 2^31", element=(0,))
def loop_past_the_end(bug):
    walk[(1,)](large(), np.zeros(8, I8), 1 << 29, 5, B=8, BUG=bug)


@tile.jit
def carried(x_ptr, o_ptr, stride, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B) if BUG else tl.arange(0, B).to(tl.int64)
    total = tl.zeros((B,), tl.int8)
    for k in range(n):
        total += tl.load(x_ptr + i)  # fault
        i += stride
    tl.store(o_ptr + tl.arange(0, B), total)


@planted("overflow", "offsets that grow in a loop", element=(0,))
def growing_offsets(bug):
    carried[(1,)](large(), np.zeros(8, I8), 1 << 29, 5, B=8, BUG=bug)


@tile.jit
def shifted(x_ptr, o_ptr, row, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    r = row if BUG else tl.cast(row, tl.int64)
    tl.store(o_ptr + i, tl.load(x_ptr + (r << 16) + i))  # fault


@planted("overflow", "a row shifted past 2^31", element=(0,))
def shifted_row(bug):
    shifted[(1,)](large(), np.zeros(8, I8), 32768, B=8, BUG=bug)


@tile.jit
def offset_of(row, stride):
    return row * stride


@tile.jit
def through_a_function(x_ptr, o_ptr, row, stride, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    start = offset_of(row, stride) if BUG else offset_of(tl.cast(row, tl.int64), stride)
    tl.store(o_ptr + i, tl.load(x_ptr + start + i))  # fault


@planted("overflow", "wrapped in a device function", element=(0,))
def in_a_function(bug):
    through_a_function[(1,)](large(), np.zeros(8, I8), 32768, 1 << 16, B=8, BUG=bug)


@tile.jit
def cast_too_late(x_ptr, o_ptr, row, stride, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    start = (row * stride).to(tl.int64) if BUG else row.to(tl.int64) * stride
    tl.store(o_ptr + i, tl.load(x_ptr + start + i))  # fault


@planted("overflow", "cast to 64 bits when it is too late", element=(0,))
def late_cast(bug):
    cast_too_late[(1,)](large(), np.zeros(8, I8), 32768, 1 << 16, B=8, BUG=bug)


@tile.jit
def chosen(x_ptr, o_ptr, row, stride, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    far = row * stride + i if BUG else row.to(tl.int64) * stride + i
    at = tl.where(i < n, i, far)
    tl.store(o_ptr + i, tl.load(x_ptr + at))  # fault


@planted("overflow", "through a `where`, in some elements", element=(5,))
def through_where(bug):
    chosen[(1,)](large(), np.zeros(8, I8), 32768, 1 << 16, 5, B=8, BUG=bug)


@tile.jit
def guarded(x_ptr, o_ptr, first, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    at = (first if BUG else first.to(tl.int64)) + i
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=at < n, other=0))  # fault


@planted("overflow", "wrapped on the way to a mask", element=(5,), place=("x_ptr", (5,)))
def wrapped_mask(bug):
    first = (1 << 31) - 5
    guarded[(1,)](np.zeros(8, I8), np.zeros(8, I8), first, first + 4, B=8, BUG=bug)


@tile.jit
def apart(x_ptr, o_ptr, row, stride, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    r = row if BUG else row.to(tl.int64)
    at = (r + 1) * stride - r * stride
    tl.store(o_ptr + at + i, tl.load(x_ptr + i))  # fault


@planted("overflow", "wrapped twice, on the way to a store", place=("o_ptr", (70000,)))
def wrapped_twice(bug):
    apart[(1,)](np.zeros(8, F32), np.zeros(70008, F32), 70000, 70000, B=8, BUG=bug)


@tile.jit
def atomic_apart(o_ptr, row, stride, BUG: tl.constexpr):
    r = row if BUG else row.to(tl.int64)
    at = (r + 1) * stride - r * stride
    tl.atomic_add(o_ptr + at + tl.program_id(0), 1.0)  # fault


@planted("overflow", "on the way to an atomic operation", program=(0, 0, 0))
def wrapped_atomic(bug):
    atomic_apart[(2,)](np.zeros(70008, F32), 70000, 70000, BUG=bug)
