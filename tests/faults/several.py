"""Accesses with faults of several kinds, none of which hides another."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32, I32 = np.float32, np.int32


@tile.jit
def double(x_ptr, o_ptr, n, m, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x * 2, mask=i < m)  # fault


@planted(
    "bounds",
    "an undefined value written past the end",
    element=(6,),
    place=("o_ptr", 6),
    also=("undef",),
)
def undefined_past_the_end(bug):
    n = 5 if bug else 6
    double[(1,)](np.zeros(n, F32), np.zeros(6, F32), n, 8 if bug else 6, B=8)


@tile.jit
def keep_some(keep_ptr, x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    keep = tl.load(keep_ptr + i, mask=i < n) != 0
    inside = keep if BUG else keep & (i < n)
    x = tl.load(x_ptr + i, mask=inside, other=0.0)  # fault
    tl.store(o_ptr + i, x, mask=i < n)


@planted("undef", "read past the end under an undefined mask", element=(5,), also=("bounds",))
def undefined_mask_past_the_end(bug):
    keep_some[(1,)](np.ones(5, I32), np.zeros(5, F32), np.zeros(8, F32), 5, B=8, BUG=bug)


@tile.jit
def far_from(at_ptr, x_ptr, o_ptr, n, far, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(at_ptr + i, mask=i < n) + far
    x = tl.load(x_ptr + at, mask=i < (B if BUG else n), other=0.0)  # fault
    tl.store(o_ptr + i, x)


@planted("undef", "an undefined address that is outside", element=(5,), also=("bounds",))
def undefined_address_outside(bug):
    at, x = np.arange(5, dtype=I32), np.zeros(8, F32)
    far_from[(1,)](at - 8, x, np.zeros(8, F32), 5, 8, B=8, BUG=False)
    far_from[(1,)](at, x, np.zeros(8, F32), 5, 100 if bug else 3, B=8, BUG=bug)


@tile.jit
def last_value(x_ptr, o_ptr, n, BUG: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid, mask=pid < n) if BUG else tl.load(x_ptr + pid, mask=pid < n, other=0.0)
    tl.store(o_ptr + (0 if BUG else pid), x)  # fault


@planted(
    "undef",
    "undefined values of several programs at one place",
    program=(0, 0, 0),
    place=("o_ptr", (0,)),
    also=("race",),
)
def undefined_race(bug):
    last_value[(4,)](np.zeros(4, F32), np.zeros(4, F32), 0 if bug else 3, BUG=bug)


@tile.jit
def flagged(keep_ptr, o_ptr, n, BUG: tl.constexpr):
    pid = tl.program_id(0)
    keep = tl.load(keep_ptr + pid, mask=pid < n) != 0
    inside = keep if BUG else keep & (pid < n)
    tl.store(o_ptr + (0 if BUG else pid), 1.0, mask=inside)  # fault


@planted("undef", "several programs at one place under undefined masks", also=("race",))
def undefined_mask_race(bug):
    flagged[(4,)](np.ones(4, I32), np.zeros(4, F32), 1, BUG=bug)


@tile.jit
def scatter(at_ptr, o_ptr, n, BUG: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.load(at_ptr + pid, mask=pid < n)
    tl.store(o_ptr + at, 1.0, mask=pid < (4 if BUG else n))  # fault


@planted("undef", "undefined addresses of several programs", program=(1, 0, 0), also=("race",))
def undefined_address_race(bug):
    scatter[(4,)](np.arange(4, dtype=I32), np.zeros(4, F32), 1, BUG=bug)


@tile.jit
def add_up(x_ptr, o_ptr, n, m, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.atomic_add(o_ptr + i, x, mask=i < m)  # fault


@planted(
    "bounds",
    "undefined values added up past the end",
    element=(6,),
    place=("o_ptr", 6),
    also=("undef",),
)
def undefined_update_past_the_end(bug):
    n = 5 if bug else 6
    add_up[(2,)](np.zeros(n, F32), np.zeros(6, F32), n, 8 if bug else 6, B=8)


@tile.jit
def row_of(x_ptr, o_ptr, row, stride, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    start = row * stride if BUG else row
    tl.store(o_ptr + i, tl.load(x_ptr + start + i))  # fault


@planted("overflow", "a wrapped address that is outside", element=(0,), also=("bounds",))
def wrapped_address_outside(bug):
    row_of[(1,)](np.zeros(1 << 16, F32), np.zeros(8, F32), 50000, 50000, B=8, BUG=bug)


@tile.jit
def adjacent_rows(o_ptr, step, B: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, B)
    tl.store(o_ptr + i, tl.program_id(0))  # fault


@planted("bounds", "past the end, and over another program's", place=("o_ptr", 8), also=("race",))
def race_past_the_end(bug):
    adjacent_rows[(2,)](np.zeros(8 if bug else 16, I32), 4 if bug else 8, B=8)


@tile.jit
def one_place(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + (i // 2 if BUG else i), x + i, mask=i < (B if BUG else n))  # fault


@planted("undef", "undefined values of one store at one place", element=(0,), also=("race",))
def undefined_several_times(bug):
    one_place[(1,)](np.zeros(8, F32), np.zeros(8, F32), 0 if bug else 5, B=8, BUG=bug)


@tile.jit
def wrapped_and_masked(n_ptr, o_ptr, m, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    n = tl.load(n_ptr + i, mask=i < m) if BUG else tl.load(n_ptr + i, mask=i < m, other=0)
    total = 0
    for k in range(tl.sum(n, 0)):  # fault
        total += k
    tl.store(o_ptr, total)


@planted("undef", "a loop to a sum that is undefined and wrapped", also=("overflow",))
def undefined_and_wrapped_bound(bug):
    counts = np.full(5, 1 << 30 if bug else 2, I32)  # 2^30 iterations, if they were run
    wrapped_and_masked[(1,)](counts, np.zeros(1, I32), 5, B=8, BUG=bug)
