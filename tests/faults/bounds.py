"""Accesses outside the array or view that was passed."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32 = np.float32


@tile.jit
def square(x_ptr, o_ptr, m, n, M: tl.constexpr, BUG: tl.constexpr):
    r = tl.arange(0, M)[:, None]
    c = tl.arange(0, M)[None, :]
    inside = (r < m) & (c < M) if BUG else (r < m) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + r * M + c, x)


@planted("bounds", "no mask of columns on a square tile", element=(7, 6), place=("x_ptr", 48))
def forgotten_column_mask(bug):
    square[(1,)](np.zeros((8, 6), F32), np.zeros((8, 8), F32), 8, 6, M=8, BUG=bug)


@tile.jit
def copy_blocks(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)  # fault
    tl.store(o_ptr + i, x)


@planted("bounds", "a grid of one program too many", program=(4, 0, 0), element=(0,))
def off_by_one_grid(bug):
    copy_blocks[(4 + bug,)](np.zeros(64, F32), np.zeros(64, F32), B=16)


@planted("bounds", "a grid rounded up, and no mask", program=(3, 0, 0), place=("x_ptr", 60))
def ragged_end(bug):
    n = 60 if bug else 64
    copy_blocks[(4,)](np.zeros(n, F32), np.zeros(64, F32), B=16)


@tile.jit
def reverse_columns(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    last = n if BUG else n - 1
    x = tl.load(x_ptr + row * n + (last - c), mask=c < n, other=0.0)  # fault
    tl.store(o_ptr + row * n + c, x, mask=c < n)


@planted(
    "bounds", "columns read from n down, not from n - 1", program=(3, 0, 0), place=("x_ptr", 24)
)
def reversed_column(bug):
    reverse_columns[(4,)](np.zeros((4, 6), F32), np.zeros((4, 6), F32), 6, B=8, BUG=bug)


@tile.jit
def count_bins(x_ptr, bins_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B))
    tl.atomic_add(bins_ptr + x, 1)  # fault


@planted(
    "bounds",
    "an atomic operation at the bin behind the last",
    program=(1, 0, 0),
    element=(3,),
    place=("bins_ptr", 10),
)
def atomics_index(bug):
    x = np.arange(16, dtype=np.int32) % 10
    x[11] = 10 if bug else 9
    count_bins[(2,)](x, np.zeros(10, np.int32), B=8)


@tile.jit
def look_up(table_ptr, index_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(table_ptr + tl.load(index_ptr + i))  # fault
    tl.store(o_ptr + i, x)


@planted(
    "bounds",
    "good indices at the first launch, a bad one at the second",
    program=(1, 0, 0),
    element=(2,),
    place=("table_ptr", 100),
)
def stale_second_launch(bug):
    index = np.arange(16, dtype=np.int32)
    table, out = np.zeros(20, F32), np.zeros(16, F32)
    look_up[(2,)](table, index, out, B=8)
    index[10] = 100 if bug else 3
    look_up[(2,)](table, index, out, B=8)


@planted("bounds", "a sentinel of -1 as an index", element=(5,), place=("table_ptr", -1))
def sentinel_index(bug):
    index = np.arange(8, dtype=np.int64)
    index[5] = -1 if bug else 0
    look_up[(1,)](np.zeros(8, F32), index, np.zeros(8, F32), B=8)


@tile.jit
def smooth(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n if BUG else (i < n) & (i > 0)
    before = tl.load(x_ptr + i - 1, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + i, before, mask=i < n)


@planted("bounds", "a left neighbor of the first element", element=(0,), place=("x_ptr", -1))
def left_halo(bug):
    smooth[(4,)](np.zeros(30, F32), np.zeros(30, F32), 30, B=8, BUG=bug)


@tile.jit
def scale(x_ptr, step, N: tl.constexpr):
    p = x_ptr + tl.arange(0, N) * step
    x = tl.load(p)  # fault
    tl.store(p, x * 2)


@planted("bounds", "a strided view taken for a dense one", element=(1,), place=("x_ptr", 1))
def strided_view(bug):
    scale[(1,)](np.zeros(64, F32)[8:40:2], 1 if bug else 2, N=16)


@planted("bounds", "a reversed view walked forwards", element=(1,), place=("x_ptr", 1))
def negative_stride(bug):
    scale[(1,)](np.zeros(64, F32)[31:15:-1], 1 if bug else -1, N=16)


@planted("bounds", "a column walked along its row", element=(1,), place=("x_ptr", 1))
def column_view(bug):
    scale[(1,)](np.zeros((16, 4), F32)[:, 1], 1 if bug else 4, N=16)


@tile.jit
def first_of(x_ptr, o_ptr, n, BUG: tl.constexpr):
    if BUG:
        x = tl.load(x_ptr)  # fault
    else:
        x = tl.load(x_ptr, mask=n > 0, other=0.0)
    tl.store(o_ptr, x)


@planted("bounds", "the first element of an empty array", element=(), place=("x_ptr", 0))
def empty_array(bug):
    first_of[(1,)](np.zeros(0, F32), np.zeros(1, F32), 0, BUG=bug)


@tile.jit
def transpose(x_ptr, o_ptr, m, n, B: tl.constexpr, BUG: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (r < m) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=inside, other=0.0)
    to = c * n + r if BUG else c * m + r
    tl.store(o_ptr + to, x, mask=inside)  # fault


@planted("bounds", "the stride of the input used for the output")
def swapped_strides(bug):
    x, out = np.zeros((12, 20), F32), np.zeros((20, 12), F32)
    transpose[(2, 3)](x, out, 12, 20, B=8, BUG=bug)


@tile.jit
def masked_copy(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i <= n if BUG else i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + i, x, mask=i < n)


@planted("bounds", "`<=` for `<` in a mask", program=(3, 0, 0), element=(6,), place=("x_ptr", 30))
def inclusive_mask(bug):
    masked_copy[(4,)](np.zeros(30, F32), np.zeros(30, F32), 30, B=8, BUG=bug)


@tile.jit
def unguarded_store(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if BUG:
        tl.store(o_ptr + i, x)  # fault
    else:
        tl.store(o_ptr + i, x, mask=i < n)


@planted("bounds", "a mask on the load alone", program=(3, 0, 0), element=(6,), place=("o_ptr", 30))
def mask_on_load_only(bug):
    unguarded_store[(4,)](np.zeros(30, F32), np.zeros(30, F32), 30, B=8, BUG=bug)


@tile.jit
def sum_arrays(table_ptr, o_ptr, count, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(count):
        array = tl.load(table_ptr + k).to(tl.pointer_type(tl.float32))  # fault
        total += tl.load(array + i)
    tl.store(o_ptr + i, total)


@planted("bounds", "a pointer behind the last of a table", place=("table_ptr", 3))
def pointer_table_end(bug):
    arrays = [np.zeros(8, F32) for _ in range(3)]
    sum_arrays[(1,)](tile.pointers(arrays), np.zeros(8, F32), 3 + bug, N=8)


@tile.jit
def sum_pointed(table_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    array = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(array + i)  # fault
    tl.store(o_ptr + tl.program_id(0), tl.sum(x, 0))


@planted(
    "bounds",
    "one array of a table is shorter",
    program=(1, 0, 0),
    element=(7,),
    place=("table_ptr[1]", 7),
)
def short_pointed_array(bug):
    arrays = [np.zeros(8, F32), np.zeros(7 if bug else 8, F32), np.zeros(8, F32)]
    sum_pointed[(3,)](tile.pointers(arrays), np.zeros(3, F32), N=8)


@tile.jit
def copy_by_difference(x_ptr, y_ptr, o_ptr, N: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, N)
    apart = (y_ptr.to(tl.int64) - x_ptr.to(tl.int64)) // 4
    if BUG:
        y = tl.load(x_ptr + (apart + i))  # fault
    else:
        y = tl.load(y_ptr + i)
    tl.store(o_ptr + i, y)


@planted("bounds", "a pointer that strays from one array into another", place=("y_ptr", (0,)))
def stray_pointer(bug):
    copy_by_difference[(1,)](*(np.zeros(8, F32) for _ in range(3)), N=8, BUG=bug)


@tile.jit
def row_sums(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    end = n + B if BUG else n
    for k in range(0, end, B):
        total += tl.load(x_ptr + row * n + k + tl.arange(0, B))  # fault
    tl.store(o_ptr + row, tl.sum(total, 0))


@planted("bounds", "a loop one block too long", program=(3, 0, 0), place=("x_ptr", 128))
def loop_too_far(bug):
    row_sums[(4,)](np.zeros((4, 32), F32), np.zeros(4, F32), 32, B=8, BUG=bug)


@tile.jit
def lock_rows(lock_ptr, x_ptr, rows):
    row = tl.program_id(0) + rows
    while tl.atomic_cas(lock_ptr + row, 0, 1) == 1:  # fault
        pass
    tl.atomic_xchg(lock_ptr + row, 0)


@planted("bounds", "a lock behind the last", program=(0, 0, 0), place=("lock_ptr", 4))
def lock_index(bug):
    lock_rows[(4,)](np.zeros(4, np.int32), np.zeros(4, F32), 4 if bug else 0)


@tile.jit
def add_rows(x_ptr, o_ptr, m, n, R: tl.constexpr, C: tl.constexpr, BUG: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    inside = (r < n) & (c < n) if BUG else (r < m) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + r * n + c, x, mask=inside)


@planted("bounds", "rows held to the number of columns", program=(1, 0, 0), element=(2, 0))
def mask_of_another_axis(bug):
    add_rows[(2,)](np.zeros((6, 8), F32), np.zeros((6, 8), F32), 6, 8, R=4, C=8, BUG=bug)


@tile.jit
def tail(x_ptr, o_ptr, start, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + start + i)  # fault
    tl.store(o_ptr + i, x)


@planted("bounds", "inside the allocation, outside the view", element=(4,), place=("x_ptr", 16))
def inside_the_allocation(bug):
    tail[(1,)](np.zeros(64, F32)[16:32], np.zeros(8, F32), 12 if bug else 8, N=8)


@tile.jit
def swap_halves(x_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    half = n // 2 + 1 if BUG else n // 2
    low = tl.load(x_ptr + i)
    high = tl.load(x_ptr + half + i)  # fault
    tl.store(x_ptr + i, high)
    tl.store(x_ptr + half + i, low)


@planted("bounds", "halves one apart too far", program=(1, 0, 0), element=(7,), place=("x_ptr", 32))
def uneven_halves(bug):
    swap_halves[(2,)](np.zeros(32, F32), 32, B=8, BUG=bug)


@tile.jit
def read_words(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i)  # fault
    tl.store(o_ptr + i, x)


@planted("bounds", "words over bytes of which the view has every other one", element=(0,))
def words_over_gaps(bug):
    x = np.zeros(64, np.int8)
    read_words[(1,)](x[::2] if bug else x[:32], np.zeros(8, np.int32), B=8)


@tile.jit
def read_every(x_ptr, o_ptr, start, step, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + start + i * step)  # fault
    tl.store(o_ptr + i, x)


@planted("bounds", "a view with overlapping axes, between its elements", element=(1,))
def between_overlapping_axes(bug):
    x = np.lib.stride_tricks.as_strided(np.zeros(64, np.int8), (8, 8), (2, 3))
    read_every[(1,)](x, np.zeros(8, np.int8), 0 if bug else 2, 1, B=8)


@planted("bounds", "a field of a packed structure, past its elements", element=(1,))
def fields_of_packed_structures(bug):
    x = np.zeros(64, [("first", F32), ("second", np.int8)])["first"]
    read_every[(1,)](x, np.zeros(8, F32), 0, 1 if bug else 5, B=8)


@planted("bounds", "a view of gaps as large as a memory", element=(0,), place=("x_ptr", 1))
def gaps_of_a_large_view(bug):
    x = np.lib.stride_tricks.as_strided(np.zeros(64, np.int8), (1 << 40,), (2,))
    read_every[(1,)](x, np.zeros(8, np.int8), int(bug), 2, B=8)
