"""Signed index arithmetic that wraps on its way to an address.

The arrays behind a correct index past 2^31 are as large as that, of memory that nobody touches.
"""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32, I8, I32 = np.float32, np.int8, np.int32
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


@tile.jit
def plus(a, b):
    return a + b


@tile.jit
def plus_or_minus(a, b):
    if a > b:
        total = a - b
    else:
        total = a + b
    return total


@tile.jit
def counted_to_mask(c_ptr, o_ptr, B: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, B)
    c = tl.load(c_ptr + i)
    if KIND == "sum":
        n = tl.sum(c, 0)
    elif KIND == "prod":
        n = tl.reduce(c, 0, times)
    elif KIND == "cumsum":
        n = tl.max(tl.cumsum(c, 0), 0)
    elif KIND == "reverse":
        n = tl.max(tl.cumsum(c, 0, reverse=True), 0)
    elif KIND == "cumprod":
        n = tl.min(tl.cumprod(c, 0), 0)
    elif KIND == "reduce":
        n = tl.reduce(c, 0, plus)
    elif KIND == "branching":
        n = tl.reduce(c, 0, plus_or_minus)
    elif KIND == "scan":
        n = tl.max(tl.associative_scan(c, 0, plus), 0)
    elif KIND == "sort":
        n = tl.max(tl.sort(c * 8), 0)
    elif KIND == "argmax":
        n = tl.argmax(c * 8, 0)
    elif KIND == "max":
        n = tl.reduce(c * 8, 0, larger)
    elif KIND == "histogram":
        n = tl.max(tl.histogram(c * 8, 8), 0)
    elif KIND == "gather":
        n = tl.max(tl.gather(i, c * 8 % 8, 0), 0)
    elif KIND == "float":
        n = tl.floor(tl.sqrt(tl.max(c * 8, 0).to(tl.float32))).to(tl.int32)
    elif KIND == "any":
        n = tl.reduce_or(c * 8 > 0, 0).to(tl.int32) * B
    else:
        n = tl.abs(tl.min(c * 8, 0)) // 8
    tl.store(o_ptr + i, i, mask=i < n)  # fault


@tile.jit
def times(a, b):
    return a * b


@tile.jit
def larger(a, b):
    return tl.where(a > b, a, b)


def _counted(kind, bug, value=1 << 29):
    counts = np.full(8, value if bug else 1, I32)
    counted_to_mask[(1,)](counts, np.zeros(8, I32), B=8, KIND=kind)


@planted("overflow", "a sum that wrapped and masks everything off", element=(0,))
def sum_to_mask(bug):
    _counted("sum", bug)


@planted("overflow", "a product of all elements that wrapped", element=(0,))
def prod_to_mask(bug):
    _counted("prod", bug)


@planted("overflow", "a running sum that wrapped", element=(0,))
def cumsum_to_mask(bug):
    _counted("cumsum", bug)


@planted("overflow", "a running sum from the end that wrapped", element=(0,))
def reverse_cumsum_to_mask(bug):
    _counted("reverse", bug)


@planted("overflow", "a running product that wrapped", element=(0,))
def cumprod_to_mask(bug):
    _counted("cumprod", bug)


@planted("overflow", "a sum in the function of tl.reduce", element=(0,))
def custom_reduction_to_mask(bug):
    _counted("reduce", bug)


@planted("overflow", "a sum in a branch of the function of tl.reduce", element=(0,))
def branching_reduction_to_mask(bug):
    _counted("branching", bug)


@planted("overflow", "a sum in the function of tl.associative_scan", element=(0,))
def custom_scan_to_mask(bug):
    _counted("scan", bug)


@planted("overflow", "sorted numbers that wrapped", element=(0,))
def sort_to_mask(bug):
    _counted("sort", bug)


@planted("overflow", "the place of the greatest of numbers that wrapped", element=(0,))
def argmax_to_mask(bug):
    _counted("argmax", bug)


@planted("overflow", "wrapped numbers that the function of tl.reduce compares", element=(0,))
def custom_maximum_to_mask(bug):
    _counted("max", bug)


@planted("overflow", "wrapped numbers counted in a histogram", element=(0,))
def histogram_to_mask(bug):
    _counted("histogram", bug)


@planted("overflow", "gathered from a position that wrapped", element=(0,))
def gather_to_mask(bug):
    _counted("gather", bug)


@planted("overflow", "a wrapped number made a float and back", element=(0,))
def float_to_mask(bug):
    _counted("float", bug)


@planted("overflow", "whether any of some wrapped numbers is positive", element=(0,))
def any_to_mask(bug):
    _counted("any", bug)


@planted("overflow", "the magnitude of the least integer", element=(0,))
def magnitude_to_mask(bug):
    _counted("abs", bug, -(1 << 28))


@tile.jit
def quotient_to_mask(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    n = tl.load(x_ptr) // tl.load(x_ptr + 1)
    tl.store(o_ptr + i, i, mask=i < n)  # fault


@planted("overflow", "the least integer divided by -1", element=(0,))
def least_by_minus_one(bug):
    x = np.array([-(1 << 31) if bug else -6, -1], I32)
    quotient_to_mask[(1,)](x, np.zeros(8, I32), B=8)


@tile.jit
def dot_to_mask(a_ptr, o_ptr, start, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    a = tl.load(a_ptr + at)
    d = tl.dot(a, a, tl.zeros((B, B), tl.int32) + start)
    tl.store(o_ptr + at, 1, mask=d > 0)  # fault


@planted("overflow", "a dot of int8 that does not fit its accumulator", element=(0, 0))
def dot_past_the_accumulator(bug):
    a, out = np.full((16, 16), 100, I8), np.zeros((16, 16), I32)
    dot_to_mask[(1,)](a, out, (1 << 31) - 1000 if bug else 0, B=16)


@tile.jit
def loop_to_total(c_ptr, o_ptr, B: tl.constexpr):
    n = tl.sum(tl.load(c_ptr + tl.program_id(0) * B + tl.arange(0, B)), 0)
    total = 0
    for k in range(n):  # fault
        total += k
    tl.store(o_ptr + tl.program_id(0), total)


@planted("overflow", "a loop that counts to a sum that wrapped", program=(1, 0, 0))
def loop_to_wrapped(bug):
    counts = np.ones((2, 8), I32)
    counts[1] = 1 << 29 if bug else 2
    loop_to_total[(2,)](counts, np.zeros(2, I32), B=8)


@tile.jit
def loop_from(o_ptr, row, stride, end, BUG: tl.constexpr):
    first = row * stride if BUG else row.to(tl.int64) * stride
    for k in range(first, end, 1 << 20):  # fault
        tl.store(o_ptr, 1)


@planted("overflow", "a loop that counts from a product that wrapped", program=(0, 0, 0))
def loop_from_wrapped(bug):
    loop_from[(1,)](np.zeros(1, I32), 32768, 1 << 16, -(1 << 31) + 5, BUG=bug)


@tile.jit
def guarded_store(c_ptr, o_ptr, B: tl.constexpr):
    n = tl.sum(tl.load(c_ptr + tl.arange(0, B)), 0)
    if n > tl.program_id(0):  # fault
        tl.store(o_ptr + tl.program_id(0), n)


@planted("overflow", "a branch around a store, on a sum that wrapped", program=(0, 0, 0))
def branch_on_wrapped(bug):
    guarded_store[(2,)](np.full(8, 1 << 29 if bug else 1, I32), np.zeros(2, I32), B=8)


@tile.jit
def select_by_branch(c_ptr, o_ptr, B: tl.constexpr):
    pid = tl.program_id(0)
    n = tl.sum(tl.load(c_ptr + tl.arange(0, B)), 0) + pid
    if n > 9:
        k = n % 3 + 1
    else:
        k = pid * 2
    tl.store(o_ptr + k, 1)  # fault


@planted("overflow", "an address chosen by a branch on a sum that wrapped", program=(0, 0, 0))
def branch_to_address(bug):
    select_by_branch[(2,)](np.full(8, 1 << 29 if bug else 1, I32), np.zeros(8, I32), B=8)


@tile.jit
def count_up(c_ptr, o_ptr, B: tl.constexpr):
    n = tl.sum(tl.load(c_ptr + tl.arange(0, B)), 0) + tl.program_id(0)
    k = 0
    while k < n:
        k += 1
    tl.store(o_ptr + k, 1)  # fault


@planted("overflow", "an address that a `while` counts to a sum that wrapped")
def while_to_address(bug):
    count_up[(2,)](np.full(8, 1 << 29 if bug else 1, I32), np.zeros(16, I32), B=8)


@tile.jit
def fill_up(c_ptr, o_ptr, B: tl.constexpr):
    n = tl.sum(tl.load(c_ptr + tl.arange(0, B)), 0)
    k = 0
    while k < n:  # fault
        tl.store(o_ptr + k, 1)
        k += 1


@planted("overflow", "a `while` around a store that ends by a sum that wrapped")
def while_on_wrapped(bug):
    fill_up[(1,)](np.full(8, 1 << 29 if bug else 1, I32), np.zeros(8, I32), B=8)


@tile.jit
def masked_row(at_ptr, x_ptr, o_ptr, row, stride, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    last = row * stride + stride if BUG else i - i
    at = tl.load(at_ptr + i, mask=i < n, other=last)
    tl.store(o_ptr + i, tl.load(x_ptr + at))  # fault


@planted("overflow", "through the `other` of a load", element=(5,))
def through_other(bug):
    at = np.arange(8, dtype=I32)
    masked_row[(1,)](at, np.zeros(8, I8), np.zeros(8, I8), 1 << 16, 1 << 16, 5, B=8, BUG=bug)


@tile.jit
def of_constants(x_ptr, o_ptr, B: tl.constexpr, ROW: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.cast(ROW, tl.int32)
    at = (row + 1) * ROW - row * ROW - ROW
    tl.store(o_ptr + at + i, tl.load(x_ptr + i))  # fault


@planted("overflow", "arithmetic of constants that wrapped", element=(0,))
def wrapped_constants(bug):
    of_constants[(1,)](np.zeros(8, F32), np.zeros(8, F32), B=8, ROW=70000 if bug else 7000)
