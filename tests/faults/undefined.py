"""Values that nobody defined, where they matter."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32 = np.float32


@tile.jit
def reduce_row(x_ptr, o_ptr, n, B: tl.constexpr, KIND: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    if BUG:
        x = tl.load(x_ptr + row * n + i, mask=i < n)
    else:
        x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
    if KIND == "sum":
        y = tl.sum(x, 0)
    elif KIND == "max":
        y = tl.max(x, 0)
    elif KIND == "argmax":
        y = tl.argmax(x, 0).to(tl.float32)
    elif KIND == "sort":
        y = tl.max(tl.sort(x), 0)
    else:
        y = tl.max(tl.cumsum(x, 0), 0)
    tl.store(o_ptr + row, y)  # fault


def _reduce(kind, bug):
    x, out = np.zeros((4, 6), F32), np.zeros(4, F32)
    reduce_row[(4,)](x, out, 6, B=8, KIND=kind, BUG=bug)


@planted("undef", "a sum over masked lanes", program=(0, 0, 0), place=("o_ptr", (0,)))
def sum_of_masked(bug):
    _reduce("sum", bug)


@planted("undef", "a maximum over masked lanes", program=(0, 0, 0))
def max_of_masked(bug):
    _reduce("max", bug)


@planted("undef", "the place of a maximum over masked lanes", program=(0, 0, 0))
def argmax_of_masked(bug):
    _reduce("argmax", bug)


@planted("undef", "masked lanes sorted among the others", program=(0, 0, 0))
def sort_of_masked(bug):
    _reduce("sort", bug)


@planted("undef", "a running sum over masked lanes", program=(0, 0, 0))
def scan_of_masked(bug):
    _reduce("scan", bug)


@tile.jit
def store_all(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    inside = i < n + 2 if BUG else i < n
    tl.store(o_ptr + i, x * 2 + 1, mask=inside)  # fault


@planted(
    "undef",
    "stored under a wider mask than loaded",
    program=(3, 0, 0),
    element=(6,),
    place=("o_ptr", (30,)),
)
def wider_store(bug):
    store_all[(4,)](np.zeros(30, F32), np.zeros(32, F32), 30, B=8, BUG=bug)


@tile.jit
def branch(x_ptr, o_ptr, n, BUG: tl.constexpr):
    pid = tl.program_id(0)
    if BUG:
        x = tl.load(x_ptr + pid, mask=pid < n)
    else:
        x = tl.load(x_ptr + pid, mask=pid < n, other=0.0)
    if x > 0:  # fault
        tl.store(o_ptr + pid, x)


@planted("undef", "a branch on what was masked", program=(5, 0, 0), element=())
def branch_on_masked(bug):
    branch[(8,)](np.ones(5, F32), np.zeros(8, F32), 5, BUG=bug)


@tile.jit
def look_up(table_ptr, index_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    k = tl.load(index_ptr + i, mask=i < n)
    inside = i < n + 1 if BUG else i < n
    x = tl.load(table_ptr + k, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + i, x)


@planted("undef", "an address made of a masked index", element=(5,))
def address_of_masked(bug):
    index = np.arange(5, dtype=np.int32)
    look_up[(1,)](np.zeros(8, F32), index, np.zeros(8, F32), 5, B=8, BUG=bug)


@tile.jit
def add_up(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if BUG:
        tl.atomic_add(o_ptr + tl.arange(0, B), x)  # fault
    else:
        tl.atomic_add(o_ptr + tl.arange(0, B), x, mask=i < n)


@planted("undef", "masked lanes added up in memory", program=(3, 0, 0), element=(6,))
def atomic_of_masked(bug):
    add_up[(4,)](np.zeros(30, F32), np.zeros(8, F32), 30, B=8, BUG=bug)


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, k, M: tl.constexpr, K: tl.constexpr, BUG: tl.constexpr):
    i, j, t = tl.arange(0, M), tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, k, K):
        left = t < k - start
        a = tl.load(a_ptr + i[:, None] * k + start + t[None, :], mask=left[None, :], other=0.0)
        at = b_ptr + (start + t)[:, None] * M + j[None, :]
        if BUG:
            b = tl.load(at, mask=left[:, None])
        else:
            b = tl.load(at, mask=left[:, None], other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * M + j[None, :], total)  # fault


@planted("undef", "the rest of K without `other`, in one factor", place=("c_ptr", (0, 0)))
def dot_remainder(bug):
    a, b = np.zeros((16, 40), F32), np.zeros((40, 16), F32)
    matmul[(1,)](a, b, np.zeros((16, 16), F32), 40, M=16, K=16, BUG=bug)


@tile.jit
def choose(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.where(i > n, 0.0, x) if BUG else tl.where(i >= n, 0.0, x)
    tl.store(o_ptr + i, y)  # fault


@planted("undef", "a `where` that lets one masked lane through", element=(5,))
def where_one_off(bug):
    choose[(1,)](np.zeros(5, F32), np.zeros(8, F32), 5, B=8, BUG=bug)


@tile.jit
def accumulate(x_ptr, o_ptr, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if BUG:
        x += tl.load(o_ptr + i)
    tl.store(o_ptr + i, x)  # fault


@planted("undef", "added to an array that nobody wrote", element=(0,), place=("o_ptr", (0,)))
def accumulate_on_empty(bug):
    accumulate[(2,)](np.zeros(16, F32), tile.empty(16), B=8, BUG=bug)


@tile.jit
def write_some(o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, i.to(tl.float32), mask=i < n)


@tile.jit
def read_all(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x)  # fault


@planted("undef", "read by a second kernel, written in part by the first", element=(6,))
def half_written(bug):
    buffer = tile.empty(8)
    write_some[(1,)](buffer, 6 if bug else 8, B=8)
    read_all[(1,)](buffer, np.zeros(8, F32), B=8)


@planted("undef", "a slice left out by the host", element=(4,))
def host_left_out(bug):
    buffer = tile.empty((2, 4))
    buffer[0] = 1
    if not bug:
        buffer[1:] = 2
    read_all[(1,)](buffer, np.zeros(8, F32), B=8)


@tile.jit
def count(o_ptr, n):
    tl.atomic_add(o_ptr, 1, mask=tl.program_id(0) < n)  # fault


@planted("undef", "a counter that nobody set to zero", program=(0, 0, 0))
def counter_never_set(bug):
    counter = tile.empty(1, np.int32)
    if not bug:
        counter.fill(0)
    count[(4,)](counter, 3)


@tile.jit
def count_to(n_ptr, o_ptr, m, BUG: tl.constexpr):
    pid = tl.program_id(0)
    inside = pid < m
    n = tl.load(n_ptr + pid, mask=inside) if BUG else tl.load(n_ptr + pid, mask=inside, other=0)
    total = 0
    for k in range(n):  # fault
        total += k
    tl.store(o_ptr + pid, total, mask=inside)


@planted("undef", "a loop that counts to a masked number", program=(3, 0, 0))
def loop_bound(bug):
    count_to[(4,)](np.full(3, 5, np.int32), np.zeros(4, np.int32), 3, BUG=bug)


@tile.jit
def halve(x_ptr, o_ptr, m, BUG: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid, mask=pid < m) if BUG else tl.load(x_ptr + pid, mask=pid < m, other=0)
    while x > 1:  # fault
        x = x // 2
    tl.store(o_ptr + pid, x, mask=pid < m)


@planted("undef", "a `while` on a masked number", program=(3, 0, 0))
def while_condition(bug):
    halve[(4,)](np.full(3, 9, np.int32), np.zeros(4, np.int32), 3, BUG=bug)


@tile.jit
def narrow(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.reshape(x.to(tl.float16), (2, B // 2))
    j = tl.arange(0, 2)[:, None] * (B // 2) + tl.arange(0, B // 2)[None, :]
    if BUG:
        tl.store(o_ptr + j, y)  # fault
    else:
        tl.store(o_ptr + j, y, mask=j < n)


@planted("undef", "cast, reshaped and stored", element=(1, 1), place=("o_ptr", (5,)))
def cast_and_reshaped(bug):
    narrow[(1,)](np.zeros(5, F32), np.zeros(8, np.float16), 5, B=8, BUG=bug)


@tile.jit
def count_bins(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if BUG:
        bins = tl.histogram(x, 4)
    else:
        bins = tl.histogram(x, 4, mask=i < n)
    tl.store(o_ptr + tl.arange(0, 4), bins)  # fault


@planted("undef", "masked lanes counted in a histogram", element=(0,))
def histogram_of_masked(bug):
    count_bins[(1,)](np.zeros(5, np.int32), np.zeros(4, np.int32), 5, B=8, BUG=bug)


@tile.jit
def permute(x_ptr, o_ptr, shift, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.gather(x, i + shift, 0), mask=i < 6)  # fault


@planted("undef", "tl.gather beyond the tile", element=(5,))
def gather_outside(bug):
    permute[(1,)](np.zeros(8, F32), np.zeros(8, F32), 3 if bug else 2, B=8)


@tile.jit
def order(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.scatter(i, tl.load(x_ptr + i)))  # fault


@planted("undef", "tl.scatter of two elements to one position", element=(0,))
def scatter_twice(bug):
    x = np.arange(8, dtype=np.int32)[::-1].copy()
    x[3] -= bug
    order[(1,)](x, np.zeros(8, np.int32), B=8)


@tile.jit
def rank_bytes(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.rank(tl.load(x_ptr + i), 16))  # fault


@planted("undef", "tl.rank of an element beyond the bins", element=(0,))
def rank_outside(bug):
    rank_bytes[(1,)](np.arange(8, dtype=np.int32) + 8 + bug, np.zeros(8, np.int32), B=8)


@tile.jit
def divide(x_ptr, d_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i) % tl.load(d_ptr + i))  # fault


@planted("undef", "an integer divided by zero", element=(3,))
def divided_by_zero(bug):
    d = np.arange(8, dtype=np.int32) - 3 if bug else np.ones(8, np.int32)
    divide[(1,)](np.ones(8, np.int32), d, np.zeros(8, np.int32), B=8)


@tile.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@tile.jit
def reduce_by_function(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    if BUG:
        x = tl.load(x_ptr + i, mask=i < n)
    else:
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr, tl.reduce(x, 0, larger))  # fault


@planted("undef", "reduced by a function of one's own", element=())
def custom_reduction(bug):
    reduce_by_function[(1,)](np.zeros(5, F32), np.zeros(1, F32), 5, B=8, BUG=bug)


@tile.jit
def filter_by(x_ptr, keep_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    keep = tl.load(keep_ptr + i, mask=i < n) != 0
    inside = keep if BUG else keep & (i < n)
    tl.store(o_ptr + i, 1.0, mask=inside)  # fault


@planted("undef", "a mask that was itself masked", element=(5,))
def mask_of_masked(bug):
    keep = np.ones(5, np.int32)
    filter_by[(1,)](np.zeros(8, F32), keep, np.zeros(8, F32), 5, B=8, BUG=bug)


@tile.jit
def asserted(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if BUG:
        tl.device_assert(x >= 0, "x is positive")  # fault
    else:
        tl.device_assert(x >= 0, "x is positive", mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@planted("undef", "an assertion on masked lanes", element=(5,))
def assertion_on_masked(bug):
    asserted[(1,)](np.zeros(5, F32), np.zeros(8, F32), 5, B=8, BUG=bug)


@tile.jit
def mean_and_rest(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    mean = tl.sum(x, 0) / n
    y = tl.load(x_ptr + i, mask=i < n) - mean if BUG else tl.where(i < n, x - mean, 0.0)
    tl.store(o_ptr, tl.sum(y * y, 0) / n)  # fault


@planted("undef", "a variance over masked lanes", element=())
def variance(bug):
    mean_and_rest[(1,)](np.zeros(5, F32), np.zeros(1, F32), 5, B=8, BUG=bug)


@planted("undef", "a copy of an array that nobody wrote", element=(0,), place=("o_ptr", (0,)))
def copied_empty(bug):
    buffer = tile.empty(8)
    if not bug:
        buffer.fill(1)
    read_all[(1,)](buffer.copy(), np.zeros(8, F32), B=8)


@planted("undef", "assigned to an array from another, in part unwritten", element=(6,))
def assigned_unwritten(bug):
    source, buffer = tile.empty(8), tile.empty((2, 4))
    source[: 6 if bug else 8] = 1
    buffer[:] = source.astype(np.float64).reshape(2, 4)
    read_all[(1,)](buffer, np.zeros(8, F32), B=8)


@planted("undef", "joined by the host with what nobody wrote", element=(4,))
def joined_with_empty(bug):
    rest = tile.empty(4)
    if not bug:
        np.copyto(rest, np.ones(4, F32))
    read_all[(1,)](np.concatenate([np.zeros(4, F32), rest]), np.zeros(8, F32), B=8)
