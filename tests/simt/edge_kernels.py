"""Kernels for what random ones do not reach: odd control flow, calls, tiny and odd tiles, masks.

Arguments are made anew for each run. Types come from the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tile.ir import semantics
from tile.ir.types import ALL
from tile.runtime.signature import spell_type

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
SPELLED = {semantics.numpy_dtype(element): spell_type(element) for element in ALL}


def kernel(
    function: Any,
    make: Callable[[], list[Any]],
    grid: tuple[int, int, int] = (1, 1, 1),
    rtol: float = 0.0,
    options: dict[str, Any] | None = None,
    **constants: Any,
) -> Kernel:
    names = [p.name for p in function.parameters if not p.is_constexpr]
    signature = dict(zip(names, map(spelled, make()), strict=True))
    return Kernel(function, signature, constants, grid, make, options or {}, rtol)


def spelled(argument: Any) -> str:
    """The type of an argument, arrays aligned."""
    if hasattr(argument, "targets"):
        return f"**{SPELLED[argument.targets[0].dtype]}"
    text = SPELLED[argument.dtype]
    return f"*{text}:16" if getattr(argument, "ndim", 0) else text


def ramp(*shape: int, dtype: Any = np.float32) -> Any:
    """Small numbers of which sums of many products are exact in f32."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 11) - 5).reshape(shape).astype(dtype)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


# -- calls and control flow


@tile.jit(noinline=True)
def scaled(x, factor):
    """A tile in, a tile and a scalar out, with a reduction that warps share inside."""
    return x * factor, tl.max(x, axis=0)


@tile.jit(noinline=True)
def swapped(x):
    return tl.trans(x)


@tile.jit
def calls_in_loops(x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    greatest = 0
    for k in range(n):
        x, greatest = scaled(x, k - 1)
        x += greatest
    tl.store(y_ptr + i, x)
    for _ in range(2):
        y = tl.reshape(x, (N // 16, 16))
        y = tl.reshape(swapped(y), (N,))
        x = y + 1
    tl.store(y_ptr + N + i, x)


@tile.jit
def two_calls_of_one(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    """The same function, called with tiles that want different layouts."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    z = tl.load(x_ptr + i[:, None] + j[None, :] * M)
    tl.store(y_ptr + j[:, None] * M + i[None, :], swapped(x) + swapped(z))


@tile.jit
def early_return(x_ptr, y_ptr, limit, N: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if pid >= limit:
        tl.store(y_ptr + i, -x)
        return
    total = tl.sum(x, axis=0)
    if total > 0:
        return
    tl.store(y_ptr + i, tl.flip(x, 0) + total)


@tile.jit
def nested_loops(x_ptr, y_ptr, m, n, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for a in range(m):
        part = tl.zeros((N, N), dtype=tl.float32)
        for b in range(a, n):
            x = tl.load(x_ptr + (a * n + b) * N * N + i * N + j)
            part = tl.dot(x, tl.trans(x), part)
        row = tl.sum(part, axis=1)
        total += tl.trans(part) + row[:, None]
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def loads_around_loops(x_ptr, w_ptr, y_ptr, n, N: tl.constexpr):
    """A loop of loads inside a loop of loads, both of which may be pipelined."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for a in range(n):
        w = tl.load(w_ptr + a * N * N + i * N + j)
        for b in range(n):
            x = tl.load(x_ptr + b * N * N + i * N + j)
            total = tl.dot(w, x, total)
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def dots_around_loops(x_ptr, w_ptr, y_ptr, n, N: tl.constexpr):
    """A tile of the outer loop is an operand before the inner loop, in it, and after it."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for a in range(n):
        w = tl.load(w_ptr + a * N * N + i * N + j)
        v = tl.load(x_ptr + a * N * N + i * N + j)
        total = tl.dot(w, w, total)
        for b in range(n):
            x = tl.load(x_ptr + b * N * N + i * N + j)
            total = tl.dot(w, x, total)
        total = tl.dot(v, tl.trans(w), total)
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def sums_in_inner_loops(x_ptr, w_ptr, y_ptr, n, N: tl.constexpr):
    """An operand is computed from what both loops load, and the outer loop has another dot."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for a in tl.range(0, n, num_stages=2):
        w = tl.load(w_ptr + a * N * N + i * N + j)
        for b in range(2):
            x = tl.load(x_ptr + b * N * N + i * N + j)
            total = tl.dot(w, x + w, total)
        total += tl.trans(tl.dot(tl.trans(w), w))
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def while_with_barriers(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + i)
    steps = 0
    while tl.max(x, axis=0) > 1:
        x = tl.where(x > 1, tl.flip(x, 0) // 2, x)
        x = tl.sort(x)
        steps += 1
    tl.store(y_ptr + tl.program_id(0) * N + i, x + steps)


@tile.jit
def barriers_by_hand(x_ptr, y_ptr, n, N: tl.constexpr):
    """A program that hands values on through global memory."""
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i))
    for k in range(n):
        tl.debug_barrier()
        other = tl.load(y_ptr + (i + k + 1) % N)
        tl.debug_barrier()
        tl.store(y_ptr + i, other + k)


@tile.jit
def through_global_memory(x_ptr, y_ptr, n, N: tl.constexpr):
    """The same without a word about barriers: a program's accesses are in its order."""
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i))
    for k in range(n):
        other = tl.load(y_ptr + (i + k + 1) % N)
        tl.store(y_ptr + i, other + k)
    tl.store(y_ptr + (N - 1 - i), tl.load(y_ptr + (i ^ 1)))


@tile.jit
def branches(x_ptr, y_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if pid % 2 == 0:
        x = tl.cumsum(x, axis=0)
        if pid == 2:
            x = tl.flip(x, 0)
    else:
        x = tl.sort(x, descending=True)
    tl.store(y_ptr + pid * N + i, x + tl.sum(x, axis=0))


@tile.jit(noinline=True)
def moved(from_ptr, to_ptr, N: tl.constexpr):
    """Both pointers may be one."""
    i = tl.arange(0, N)
    tl.store(to_ptr + i, tl.load(from_ptr + (i + 1) % N))


@tile.jit
def moved_in_place(x_ptr, y_ptr, N: tl.constexpr):
    moved(x_ptr, y_ptr, N)
    moved(y_ptr, y_ptr, N)


@tile.jit(noinline=True)
def dots_of(a_ptr, b_ptr, c_ptr, n, N: tl.constexpr):
    """Each dot is stored, perhaps where the next iteration finds an operand."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    for k in range(n):
        a = tl.load(a_ptr + k * N * N + at)
        b = tl.load(b_ptr + at)
        c = tl.dot(a, b) % 3
        tl.store(c_ptr + (k + 1) * N * N + at, c.to(c_ptr.dtype.element_ty))


@tile.jit
def powers_in_place(a_ptr, b_ptr, n, N: tl.constexpr):
    dots_of(a_ptr, b_ptr, a_ptr, n, N)


@tile.jit
def powers(a_ptr, b_ptr, n, N: tl.constexpr):
    """An iteration loads what the one before it stored."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    for k in range(n):
        a = tl.load(a_ptr + k * N * N + at)
        b = tl.load(b_ptr + at)
        c = tl.dot(a, b) % 3
        tl.store(a_ptr + (k + 1) * N * N + at, c.to(a_ptr.dtype.element_ty))


@tile.jit
def scalars_through_memory(x_ptr, y_ptr, n, N: tl.constexpr):
    """A list of numbers that each say where the next one is, made and followed."""
    place = 0
    for k in range(n):
        following = (place * 5 + 3) % N
        tl.store(x_ptr + place, following)
        place = following
    place = 0
    i = tl.arange(0, N)
    total = tl.zeros((N,), dtype=tl.int32)
    for k in range(n):
        place = tl.load(x_ptr + place)
        total += tl.load(x_ptr + (i + place) % N)
    tl.store(y_ptr + i, total)


@tile.jit
def counters_at_the_end(x_ptr, y_ptr, first, last, step, N: tl.constexpr):
    """Loops whose next iteration would be past the end of the counter's type."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for k in range(first, last, step):
        x = tl.load(x_ptr + (k // step - first // step) * N * N + i * N + j)
        total = tl.dot(x, tl.trans(x), total)
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def masked_by_the_iteration(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, B: tl.constexpr):
    """The last iteration has fewer elements, and the array ends there."""
    i, k = tl.arange(0, M), tl.arange(0, B)
    total = tl.zeros((M, M), dtype=tl.float32)
    for step in range(0, K, B):
        left = K - step
        a = tl.load(a_ptr + i[:, None] * K + step + k[None, :], mask=k[None, :] < left, other=0)
        b = tl.load(b_ptr + (step + k[:, None]) * M + i[None, :], mask=k[:, None] < left, other=0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * M + i[None, :], total)


@tile.jit
def while_of_dots(x_ptr, y_ptr, n, N: tl.constexpr):
    """A loop that is not counted, around one that is."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    more = n
    while more > 0:
        for k in range(more):
            x = tl.load(x_ptr + k * N * N + i * N + j)
            total = tl.dot(x, x, total)
        more = more - 1 - (tl.max(total) > 1e9).to(tl.int32)
    tl.store(y_ptr + i * N + j, total)


@tile.jit
def in_a_branch(x_ptr, y_ptr, n, N: tl.constexpr):
    """Pipelined loops in the arms of a branch that programs take differently."""
    pid = tl.program_id(0)
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    if pid % 2 == 0:
        for k in range(n):
            x = tl.load(x_ptr + k * N * N + i * N + j)
            total = tl.dot(x, tl.trans(x), total)
    else:
        for k in range(pid):
            x = tl.load(x_ptr + k * N * N + i * N + j)
            if k == 2:
                total = tl.dot(x, x, total * 2)
            else:
                total = tl.dot(x, x, total)
        total = tl.trans(total)
    tl.store(y_ptr + pid * N * N + i * N + j, total)


@tile.jit
def rotated(x_ptr, y_ptr, n, N: tl.constexpr):
    """Carried values that change places, in whatever layouts they have."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x_ptr + i * N + j)
    b = tl.trans(a)
    c = tl.zeros((N, N), dtype=tl.float32)
    for k in range(n):
        a, b, c = b, tl.dot(a, b, c) % 5, tl.trans(a)
    tl.store(y_ptr + i * N + j, a + 10 * b + 100 * c)


# -- loops of few iterations


@tile.jit
def dot_of(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), dtype=tl.float32)
    for step in range(n):
        a = tl.load(a_ptr + i[:, None] * (K * 8) + step * K + k[None, :])
        b = tl.load(b_ptr + (step * K + k[:, None]) * M + i[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * M + i[None, :], total)


@tile.jit
def streamed(x_ptr, y_ptr, lower, upper, step, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), dtype=tl.int32)
    for k in range(lower, upper, step):
        total = total * 3 + tl.flip(tl.load(x_ptr + k * N + i), 0)
    tl.store(y_ptr + i, total)


# -- memory


@tile.jit
def pointers_to_pointers(table_ptr, y_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    base = tl.load(table_ptr + pid)
    i = tl.arange(0, N)
    tl.store(y_ptr + pid * N + i, tl.load(base + (i * 5) % N))


@tile.jit
def tile_of_pointers(table_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.load(table_ptr + tl.arange(0, M))
    at = rows[:, None] + tl.arange(0, N)[None, :]
    x = tl.load(at)
    tl.store(at, x + 1)
    tl.store(y_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(x))


@tile.jit
def masks(x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    never = i < 0
    x = tl.load(x_ptr + 1_000_000 + i, mask=never, other=7)
    tl.store(x_ptr + 1_000_000 + i, x, mask=never)
    odd = tl.load(x_ptr + i, mask=(i > 2) & (i < n), other=-1)
    third = tl.load(x_ptr + i, mask=i % 3 == 0, other=odd)
    tl.store(y_ptr + i, x + third, mask=i < n)
    tl.store(y_ptr + N + i, third, mask=i % 2 == 1)
    tl.store(y_ptr + 2 * N + 1 + i, odd, mask=i < N - 1)
    scalar = tl.load(x_ptr + n, mask=n < 0, other=5)
    tl.store(y_ptr + 3 * N, scalar, mask=scalar > 4)
    tl.store(y_ptr + 3 * N + 1, scalar, mask=scalar > 5)


@tile.jit
def mask_of_rows(x_ptr, y_ptr, m, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * n + j, mask=(i < m) & (j < n), other=0.5)
    tl.store(y_ptr + j * m + i, x, mask=(i < m) & (j < n))


@tile.jit
def transposed_store(x_ptr, y_ptr, z_ptr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    tl.store(y_ptr + j[None, :] * M + i[:, None], x)
    tl.store(z_ptr + j[:, None] * M + i[None, :], tl.trans(x) * 2)


# -- atomics


@tile.jit
def counted_tickets(counter_ptr, y_ptr, N: tl.constexpr):
    """Each element of each program draws a number of its own."""
    i = tl.arange(0, N)
    ticket = tl.atomic_add(counter_ptr + tl.zeros((N,), dtype=tl.int32), 1, mask=i % 4 != 3)
    tl.atomic_add(y_ptr + ticket, 1, mask=i % 4 != 3)


@tile.jit
def used_by_all(counter_ptr, y_ptr, N: tl.constexpr):
    """Old values of tiles and scalars, in a program with cells of its own."""
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    before = tl.atomic_add(counter_ptr + pid * N + i, i)
    again = tl.atomic_max(counter_ptr + pid * N + i, 3, mask=i > 1)
    one = tl.atomic_xchg(counter_ptr + pid * N, 77)
    old = tl.atomic_cas(counter_ptr + pid * N, 77, 78)
    same = tl.sum(tl.where(i > 1, again, 0), axis=0)
    tl.store(y_ptr + pid * N + i, before + tl.flip(before, 0) + one + old + same)


@tile.jit
def small_atomics(counter_ptr, y_ptr):
    """A tile that has fewer elements than there are threads."""
    i = tl.arange(0, 4)
    before = tl.atomic_add(counter_ptr + i, 5)
    tl.store(y_ptr + i, before + tl.sum(before, axis=0))


@tile.jit
def locked(lock_ptr, total_ptr, x_ptr, N: tl.constexpr):
    """Programs alternate in what is no atomic operation."""
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    total = tl.load(total_ptr + i)
    tl.store(total_ptr + i, total + x)
    count = tl.load(total_ptr + N)
    tl.store(total_ptr + N, count + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@tile.jit
def last_one(counter_ptr, parts_ptr, y_ptr, N: tl.constexpr):
    """The last program to come sums what the others left."""
    i = tl.arange(0, N)
    pid = tl.program_id(0)
    tl.store(parts_ptr + pid * N + i, i + pid)
    tl.debug_barrier()
    if tl.atomic_add(counter_ptr, 1) == tl.num_programs(0) - 1:
        total = tl.zeros((N,), dtype=tl.int32)
        for p in range(tl.num_programs(0)):
            total += tl.load(parts_ptr + p * N + i)
        tl.store(y_ptr + i, total)


@tile.jit(noinline=True)
def taken(counter_ptr, x):
    """An atomic operation, an access and a claim in a function that stays one."""
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.device_assert(ticket < 100, "few tickets")
    if ticket < 0:
        return x
    return tl.flip(x, 0) + tl.sum(x, axis=0)


@tile.jit
def calls_with_effects(counter_ptr, x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for k in range(n):
        if k % 2 == 0:
            x = taken(counter_ptr, x)
        else:
            x = taken(counter_ptr + 1, x) - x
    tl.store(y_ptr + i, x)


@tile.jit
def atomics_then_loads(x_ptr, y_ptr, N: tl.constexpr):
    """Additions of other threads are read again by all."""
    i = tl.arange(0, N)
    tl.atomic_add(x_ptr + i, i)
    first = tl.load(x_ptr + (N - 1 - i))
    tl.atomic_add(x_ptr + (i ^ 64), first)
    tl.store(y_ptr + i, tl.load(x_ptr + (i ^ 32)) + tl.load(x_ptr))


# -- by value


@tile.jit
def counts(x_ptr, y_ptr, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=(x % 2 == 0) & (i > 3)))
    tl.store(y_ptr + BINS + tl.arange(0, BINS), tl.histogram(x, BINS, mask=x < -1000))


@tile.jit
def gathers(x_ptr, index_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    index = tl.load(index_ptr + k[:, None] * N + j[None, :])
    tl.store(y_ptr + k[:, None] * N + j[None, :], tl.gather(x, index, axis=0))


@tile.jit
def sorts(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)[None, :]
    x = tl.load(x_ptr + i * N + j)
    tl.store(y_ptr + i * N + j, tl.sort(x, descending=True))
    tl.store(y_ptr + M * N + i * N + j, tl.sort(x, 0))
    tl.store(y_ptr + 2 * M * N + i * K + k, tl.topk(x, K))


@tile.jit
def composed(a, b, c, d):
    """First x -> a x + b, then x -> c x + d. Not commutative."""
    return a * c, b * c + d


@tile.jit
def later_of(a, i, b, j):
    more = (b > a) | ((b == a) & (j > i))
    return tl.where(more, b, a), tl.where(more, j, i)


@tile.jit
def scans(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, R: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    a, b = tl.associative_scan((x, x + 1), AXIS, composed, reverse=R)
    tl.store(y_ptr + at, a)
    tl.store(y_ptr + M * N + at, b)
    tl.store(y_ptr + 2 * M * N + at, tl.cumsum(x, axis=AXIS, reverse=R))


@tile.jit
def tuples(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    x = tl.load(x_ptr + at)
    best, place = tl.reduce((x, at), 1, later_of)
    tl.store(y_ptr + i, best)
    tl.store(y_ptr + M + i, place)
    best, place = tl.reduce((x, at), None, later_of)
    tl.store(y_ptr + 2 * M, best)
    tl.store(y_ptr + 2 * M + 1, place)
    value, first = tl.max(x, axis=0, return_indices=True)
    tl.store(y_ptr + 2 * M + 2 + j, value)
    tl.store(y_ptr + 2 * M + 2 + N + j, first)


# -- types and sizes


@tile.jit
def converted(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    """Through whatever takes elements from thread to thread."""
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j)
    y = tl.trans(tl.flip(x, 1))
    tl.store(y_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], y)
    even, odd = tl.split(tl.reshape(x, (M * N // 2, 2)))
    tl.store(y_ptr + M * N + tl.arange(0, M * N), tl.reshape(tl.join(odd, even), (M * N,)))
    first = tl.arange(0, M)[:, None] + tl.zeros((M, N), dtype=tl.int32)
    tl.store(y_ptr + 2 * M * N + i * N + j, tl.gather(x, (first * 3 + 1) % M, axis=0))


@tile.jit
def conditions(x_ptr, y_ptr, N: tl.constexpr):
    """Tiles of i1, made, moved, combined, stored."""
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) > 0
    flipped = tl.flip(x, 0)
    tl.store(y_ptr + i, flipped)
    tl.store(y_ptr + N + i, tl.sort(x))
    square = tl.trans(tl.reshape(x ^ flipped, (N // 16, 16)))
    tl.store(y_ptr + 2 * N + i, tl.reshape(square, (N,)))
    tl.store(y_ptr + 3 * N, tl.reduce_or(x, 0))


@tile.jit
def one_element(x_ptr, y_ptr):
    i = tl.arange(0, 1)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x + tl.sum(x, axis=0) + tl.sort(x) + tl.cumsum(x, axis=0) + tl.flip(x, 0))
    square = x[:, None] + tl.trans(x[None, :])
    tl.store(y_ptr + 1 + i[:, None], tl.dot(square, square))
    tl.store(y_ptr + 2, tl.max(square))
    tl.store(y_ptr + 3 + i, tl.histogram(i, 1).to(tl.float32))
    tl.store(y_ptr + 4 + i, tl.gather(x, i, axis=0))


@tile.jit
def few_elements(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.flip(tl.cumsum(x, axis=0), 0) + tl.sum(x, axis=0))
    tl.store(y_ptr + N + i, tl.sort(x))
    outer = x[:, None] * x[None, :] + tl.trans(x[:, None] - x[None, :])
    at = i[:, None] * N + i[None, :]
    tl.store(y_ptr + 2 * N + at, outer)
    tl.store(y_ptr + 2 * N + N * N + i, tl.argmax(outer, axis=1).to(tl.float32))


@tile.jit
def dots(a_ptr, b_ptr, c_ptr, d_ptr, B: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
         N: tl.constexpr, OUT: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    if B == 0:
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        at = m[:, None] * N + n[None, :]
    else:
        p = tl.arange(0, B)[:, None, None]
        a = tl.load(a_ptr + p * M * K + m[None, :, None] * K + k[None, None, :])
        b = tl.load(b_ptr + p * K * N + k[None, :, None] * N + n[None, None, :])
        at = p * M * N + m[None, :, None] * N + n[None, None, :]
    c = tl.load(c_ptr + at)
    tl.store(d_ptr + at, tl.dot(a, b, c, out_dtype=OUT, input_precision=PRECISION))


@tile.jit
def chained_dots(a_ptr, b_ptr, y_ptr, N: tl.constexpr, K: tl.constexpr):
    """The result of a dot, narrowed, as the left operand of another, transposed of a third."""
    i, k = tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + i[None, :])
    first = tl.dot(a, b)
    second = tl.dot((first % 4).to(a.dtype), tl.trans(b))
    third = tl.dot(tl.trans((second % 4).to(a.dtype)), (first % 3).to(a.dtype))
    tl.store(y_ptr + k[:, None] * N + i[None, :], third)


@tile.jit
def shared_by_rank(x_ptr, y_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    at = (
        tl.arange(0, A)[:, None, None] * (B * C)
        + tl.arange(0, B)[None, :, None] * C
        + tl.arange(0, C)[None, None, :]
    )
    x = tl.load(x_ptr + at)
    y = tl.permute(x, (2, 0, 1))
    back = (
        tl.arange(0, C)[:, None, None] * (A * B)
        + tl.arange(0, A)[None, :, None] * B
        + tl.arange(0, B)[None, None, :]
    )
    tl.store(y_ptr + back, y)
    tl.store(y_ptr + A * B * C + at, x + tl.sum(x, axis=1, keep_dims=True))
    tl.store(y_ptr + 2 * A * B * C + at, tl.cumsum(x, axis=0) * tl.max(x))


def dot_case(
    dtype: Any, result: Any, sizes: tuple[int, int, int, int], precision: str = "ieee"
) -> Kernel:
    """A dot of operands of one type; numbers are such that all sums are exact."""
    b, m, k, n = sizes
    batch = (b,) if b else ()
    spelled_result = {np.float16: tl.float16, np.float32: tl.float32, np.float64: tl.float64}
    out = spelled_result.get(result, tl.int32)
    return kernel(
        dots,
        lambda: [
            ramp(*batch, m, k, dtype=dtype),
            ramp(*batch, k, n, dtype=dtype),
            ramp(*batch, m, n, dtype=result),
            zeros(*batch, m, n, dtype=result),
        ],
        B=b, M=m, K=k, N=n, OUT=out, PRECISION=precision,
    )  # fmt: skip


def i32(*values: int) -> list[Any]:
    return [np.int32(value) for value in values]


INT = {"dtype": np.int32}
EDGES: dict[str, Kernel] = {
    "calls_in_loops": kernel(
        calls_in_loops, lambda: [ramp(256, **INT), zeros(512, **INT), *i32(4)], N=256
    ),
    "two_calls_of_one": kernel(two_calls_of_one, lambda: [ramp(16, 64), zeros(64, 16)], M=16, N=64),
    "early_return": kernel(
        early_return,
        lambda: [ramp(4, 256, **INT), zeros(4, 256, **INT), *i32(3)],
        (4, 1, 1),
        N=256,
    ),
    "nested_loops": kernel(
        nested_loops, lambda: [ramp(6, 32, 32), zeros(32, 32), *i32(2, 3)], N=32
    ),
    **{
        f"{function.__name__}_{count}": kernel(
            function,
            lambda count=count: [
                ramp(3, 32, 32, dtype=np.float16),
                ramp(3, 32, 32, dtype=np.float16),
                zeros(32, 32),
                *i32(count),
            ],
            N=32,
        )
        for function in (loads_around_loops, dots_around_loops, sums_in_inner_loops)
        for count in (0, 1, 3)
    },
    "while_with_barriers": kernel(
        while_with_barriers,
        lambda: [numbers(3, 256, dtype=np.int32), zeros(3, 256, **INT)],
        (3, 1, 1),
        N=256,
    ),
    "barriers_by_hand": kernel(
        barriers_by_hand, lambda: [ramp(512, **INT), zeros(512, **INT), *i32(3)], N=512
    ),
    "through_global_memory": kernel(
        through_global_memory, lambda: [ramp(512, **INT), zeros(512, **INT), *i32(3)], N=512
    ),
    "moved_in_place": kernel(moved_in_place, lambda: [ramp(512, **INT), zeros(512, **INT)], N=512),
    **{
        function.__name__: kernel(
            function,
            lambda: [ramp(5, 32, 32, dtype=np.float16), ramp(32, 32, dtype=np.float16), *i32(4)],
            N=32,
        )
        for function in (powers, powers_in_place)
    },
    "calls_with_effects": kernel(
        calls_with_effects,
        lambda: [zeros(2, **INT), ramp(256, **INT), zeros(256, **INT), *i32(3)],
        N=256,
    ),
    "atomics_then_loads": kernel(
        atomics_then_loads, lambda: [ramp(256, **INT), zeros(256, **INT)], N=256
    ),
    **{
        f"counters_at_the_end_{step}": kernel(
            counters_at_the_end,
            lambda first=first, last=last, step=step: [
                ramp(4, 32, 32, dtype=np.float16),
                zeros(32, 32),
                *i32(first, last, step),
            ],
            N=32,
        )
        for first, last, step in (
            (2**31 - 10, 2**31 - 1, 3),
            (-(2**31) + 10, -(2**31), -4),
            (-(2**31), 2**31 - 1, 1 << 30),
        )
    },
    **{
        f"masked_by_the_round_{inner}": kernel(
            masked_by_the_iteration,
            lambda inner=inner: [
                ramp(32, inner, dtype=np.float16),
                ramp(inner, 32, dtype=np.float16),
                zeros(32, 32),
                *i32(inner),
            ],
            M=32,
            B=16,
        )
        for inner in (5, 16, 40, 56)
    },
    "while_of_dots": kernel(
        while_of_dots,
        lambda: [ramp(3, 32, 32, dtype=np.float16), zeros(32, 32), *i32(3)],
        N=32,
    ),
    "in_a_branch": kernel(
        in_a_branch,
        lambda: [ramp(4, 32, 32, dtype=np.float16), zeros(5, 32, 32), *i32(3)],
        (5, 1, 1),
        N=32,
    ),
    "rotated": kernel(rotated, lambda: [ramp(32, 32), zeros(32, 32), *i32(4)], N=32),
    "scalars_through_memory": kernel(
        scalars_through_memory, lambda: [zeros(256, **INT), zeros(256, **INT), *i32(9)], N=256
    ),
    "branches": kernel(
        branches, lambda: [ramp(256, **INT), zeros(4, 256, **INT)], (4, 1, 1), N=256
    ),
    "pointers_to_pointers": kernel(
        pointers_to_pointers,
        lambda: [tile.pointers([ramp(256), ramp(256) + 1]), zeros(2, 256)],
        (2, 1, 1),
        N=256,
    ),
    "tile_of_pointers": kernel(
        tile_of_pointers,
        lambda: [tile.pointers([ramp(64) + row for row in range(8)]), zeros(64, 8)],
        M=8,
        N=64,
    ),
    "masks": kernel(masks, lambda: [ramp(512), zeros(3 * 512 + 2), *i32(389)], N=512),
    "mask_of_rows": kernel(
        mask_of_rows, lambda: [ramp(29, 51), zeros(51, 29), *i32(29, 51)], M=32, N=64
    ),
    "transposed_store": kernel(
        transposed_store, lambda: [ramp(16, 128), zeros(128, 16), zeros(128, 16)], M=16, N=128
    ),
    "counted_tickets": kernel(
        counted_tickets, lambda: [zeros(1, **INT), zeros(768, **INT)], (4, 1, 1), N=256
    ),
    "used_by_all": kernel(
        used_by_all, lambda: [ramp(512, **INT), zeros(512, **INT)], (2, 1, 1), N=256
    ),
    "small_atomics": kernel(small_atomics, lambda: [ramp(4, **INT), zeros(4, **INT)]),
    "locked": kernel(
        locked,
        lambda: [zeros(1, **INT), zeros(257, **INT), ramp(5, 256, **INT)],
        (5, 1, 1),
        N=256,
    ),
    "last_one": kernel(
        last_one,
        lambda: [zeros(1, **INT), zeros(4, 256, **INT), zeros(256, **INT)],
        (4, 1, 1),
        N=256,
    ),
    "counts": kernel(
        counts, lambda: [numbers(1024, dtype=np.int32), zeros(128, **INT)], N=1024, BINS=64
    ),
    "gathers": kernel(
        gathers,
        lambda: [
            numbers(16, 32),
            numbers(64, 32, dtype=np.int32) % 16,
            zeros(64, 32),
        ],
        M=16,
        N=32,
        K=64,
    ),
    "sorts": kernel(sorts, lambda: [numbers(8, 128), zeros(2 * 1024 + 128)], M=8, N=128, K=16),
    "sorts_i8": kernel(
        sorts,
        lambda: [numbers(4, 64, dtype=np.int8), zeros(768, dtype=np.int8)],
        M=4,
        N=64,
        K=32,
    ),
    **{
        f"scans_{axis}_{'reverse' if reverse else 'forward'}": kernel(
            scans,
            lambda: [ramp(32, 64, **INT), zeros(3, 32, 64, **INT)],
            M=32,
            N=64,
            AXIS=axis,
            R=reverse,
        )
        for axis in (0, 1)
        for reverse in (False, True)
    },
    "tuples": kernel(tuples, lambda: [ramp(16, 128, **INT), zeros(400, **INT)], M=16, N=128),
    **{
        f"converted_{np.dtype(dtype).name}": kernel(
            converted,
            lambda dtype=dtype: [ramp(32, 64, dtype=dtype), zeros(3, 2048, dtype=dtype)],
            M=32,
            N=64,
        )
        for dtype in (np.int8, np.uint16, BF16, E4M3, E5M2, np.float64, np.int64)
    },
    "conditions": kernel(
        conditions, lambda: [ramp(512, **INT), zeros(4 * 512, dtype=np.bool_)], N=512
    ),
    "one_element": kernel(one_element, lambda: [ramp(1) + 3, zeros(5)]),
    **{
        f"few_elements_{n}": kernel(few_elements, lambda n=n: [ramp(n), zeros(3 * n + n * n)], N=n)
        for n in (2, 8)
    },
    "dots_batched": dot_case(np.float16, np.float32, (4, 16, 32, 32)),
    "dots_batched_f32": dot_case(np.float32, np.float32, (2, 32, 16, 16)),
    "dots_f16": dot_case(np.float16, np.float16, (0, 64, 32, 32)),
    "dots_bf16": dot_case(BF16, np.float32, (0, 32, 64, 64)),
    "dots_tf32": dot_case(np.float32, np.float32, (0, 32, 32, 64), "tf32"),
    "dots_tf32x3": dot_case(np.float32, np.float32, (0, 32, 32, 32), "tf32x3"),
    "dots_i8": dot_case(np.int8, np.int32, (0, 32, 64, 32)),
    "dots_u8": dot_case(np.uint8, np.int32, (0, 32, 32, 32)),
    "dots_e4m3": dot_case(E4M3, np.float32, (0, 32, 64, 32)),
    "dots_e5m2": dot_case(E5M2, np.float32, (0, 64, 32, 16)),
    "dots_f64": dot_case(np.float64, np.float64, (0, 16, 32, 32)),
    "dots_small": dot_case(np.float16, np.float32, (0, 2, 4, 8)),
    "dots_thin": dot_case(np.float16, np.float32, (0, 16, 256, 1)),
    "chained_dots": kernel(
        chained_dots,
        lambda: [
            ramp(32, 64, dtype=np.float16),
            ramp(64, 32, dtype=np.float16),
            zeros(64, 32),
        ],
        N=32,
        K=64,
    ),
    "shared_by_rank": kernel(
        shared_by_rank, lambda: [ramp(4, 8, 32), zeros(3, 1024)], A=4, B=8, C=32
    ),
    "shared_by_rank_i64": kernel(
        shared_by_rank,
        lambda: [ramp(2, 16, 16, dtype=np.int64), zeros(3, 512, dtype=np.int64)],
        A=2,
        B=16,
        C=16,
    ),
}
