"""Loops of dots, varied in all that decides how loads are done ahead of their iterations.

All numbers are small integers, so that every order of summation gives the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tile
import tile.language as tl
from tests.fuzz import jitted
from tests.fuzz.generate import Case
from tests.fuzz.writer import Pick

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32)
SHAPES = ((32, 16, 32), (16, 16, 16), (64, 32, 16), (64, 64, 32), (128, 64, 64))
ITERATIONS = 6  # the most


@dataclass(frozen=True)
class DotLoop:
    """The constants of the kernel below, but for COUNT: `n` as a constant, or -1."""

    M: int
    N: int
    K: int
    PRECISION: str  # of dots of f32
    LEFT: int  # 0: as it lies, 1: transposed, 2: a column of it for all, 3: through an index
    RIGHT: int  # 0: as it lies, 1: transposed, 2: converted, 3: the same in all iterations
    MASKED: int  # 0: not, 1: along the sum, 2: along the rows, 3: all false in some iterations
    CARRIED: bool  # pointers are carried rather than computed
    BRANCH: int  # 0: none, 1: around the dot, 2: around a load, 3: around a sum
    STORED: int  # 0: nothing, 1: an operand, 2: to what the next iteration loads, 3: atomically
    INNER: bool  # the dot is done in a loop of its own
    BARRIER: bool
    SCALED: int  # 0: nothing, 1: left by a scalar, 2: right by a vector, 3: by their difference
    REDUCED: bool  # sums of rows are taken too
    TWICE: bool  # a second dot of the same left operand
    STEP: int
    WISHED: int  # the loop's own num_stages; 0 for none

    @classmethod
    def draw(cls, pick: Pick) -> DotLoop:
        """Return one whose every option is picked."""
        return cls(
            *SHAPES[pick(len(SHAPES))],
            ("ieee", "tf32")[pick(2)],
            *(pick(4) for _ in range(3)),
            pick(2) == 1,
            *(pick(4) for _ in range(2)),
            *(pick(2) == 1 for _ in range(2)),
            pick(4),
            *(pick(2) == 1 for _ in range(2)),
            (1, 2, -1)[pick(3)],
            (0, 0, 1, 2, 3)[pick(5)],
        )


@tile.jit
def dot_loop(
    x_ptr, w_ptr, v_ptr, index_ptr, y_ptr, z_ptr, n,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
    MASKED: tl.constexpr, CARRIED: tl.constexpr, BRANCH: tl.constexpr, STORED: tl.constexpr,
    INNER: tl.constexpr, BARRIER: tl.constexpr, SCALED: tl.constexpr, REDUCED: tl.constexpr,
    TWICE: tl.constexpr, STEP: tl.constexpr, WISHED: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    n = COUNT if COUNT >= 0 else n
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left_at = i[:, None] * K + k[None, :]
    right_at = k[:, None] * N + j[None, :]
    if LEFT == 1:
        left_at = k[:, None] * M + i[None, :]
    if LEFT == 2:
        left_at = i[:, None] + k[None, :] * 0
    if RIGHT == 1:
        right_at = j[:, None] * K + k[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    rows = tl.zeros((M,), dtype=tl.float32)
    stages: tl.constexpr = WISHED if WISHED > 0 else None
    first = 0 if STEP > 0 else n - 1
    last = n if STEP > 0 else -1
    right_ptrs = w_ptr + first * K * N + right_at
    for r in tl.range(first, last, STEP, num_stages=stages):
        # The left operand.
        left_ptrs = x_ptr + r * M * K + left_at
        if LEFT == 3:
            left_ptrs = x_ptr + tl.load(index_ptr + r) * M * K + left_at
        if MASKED == 0:
            a = tl.load(left_ptrs)
        elif MASKED == 1:
            a = tl.load(left_ptrs, mask=left_at % K < K - r, other=0.0)
        elif MASKED == 2:
            a = tl.load(left_ptrs, mask=left_at // K < M - 3, other=1.0)
        else:
            a = tl.load(left_ptrs, mask=(left_at >= 0) & (r % 2 == 0), other=0.0)
        if LEFT == 1:
            a = tl.trans(a)
        # The right operand.
        if not CARRIED:
            right_ptrs = w_ptr + r * K * N + right_at
        if RIGHT == 2:
            b = tl.load(v_ptr + r * K * N + right_at).to(x_ptr.dtype.element_ty)
        elif RIGHT == 3:
            b = tl.load(w_ptr + right_at)
        else:
            b = tl.load(right_ptrs)
            if RIGHT == 1:
                b = tl.trans(b)
        if CARRIED:
            right_ptrs += K * N * STEP
        if BRANCH == 2:
            if r != 1:
                b = tl.load(w_ptr + k[:, None] * N + j[None, :])
        # What becomes of them.
        if SCALED > 0:
            scalar = tl.load(index_ptr + r).to(x_ptr.dtype.element_ty)
            vector = tl.load(w_ptr + r * K * N + k)
            if SCALED == 1:
                a = a * scalar
            elif SCALED == 2:
                b = b * vector[:, None]
            else:
                b = b * (scalar - vector)[:, None]
        if BRANCH == 1:
            if r % 2 == 0:
                total = tl.dot(a, b, total, input_precision=PRECISION)
        elif INNER:
            for s in range(2):
                c = tl.load(w_ptr + s * K * N + k[:, None] * N + j[None, :])
                total = tl.dot(a, c + b, total, input_precision=PRECISION)
        else:
            total = tl.dot(a, b, total, input_precision=PRECISION)
        if TWICE:
            total += tl.trans(tl.dot(tl.trans(b), tl.trans(a), input_precision=PRECISION))
        if REDUCED:
            rows += tl.sum(a.to(tl.float32), axis=1)
        if BRANCH == 3:
            if r == 2:
                rows += tl.sum(b.to(tl.float32))
        if BARRIER:
            tl.debug_barrier()
        if STORED == 1:
            tl.store(z_ptr + i[:, None] * K + k[None, :], a * 2)
        elif STORED == 2:
            tl.store(x_ptr + (r + STEP) * M * K + i[:, None] * K + k[None, :], (a + 1) % 3,
                     mask=(r + STEP >= 0) & (i[:, None] >= 0) & (k[None, :] >= 0))  # fmt: skip
        elif STORED == 3:
            tl.atomic_add(y_ptr + M * N + M + i, rows)
    tl.store(y_ptr + i[:, None] * N + j[None, :], total)
    tl.store(y_ptr + M * N + i, rows)


def make(pick: Pick) -> Case:
    """Return a kernel with its arguments: arrays that its iterations fit.

    There is one tile more, which the last iteration may store to.
    """
    loop, iterations = DotLoop.draw(pick), pick(ITERATIONS + 1)
    dtype = DTYPES[pick(len(DTYPES))]
    rng = np.random.default_rng(iterations)
    count = iterations + 2

    def numbers(*shape: int) -> Any:
        return rng.integers(-2, 3, shape).astype(dtype)

    arguments = {
        "x_ptr": numbers(count, loop.M * loop.K),
        "w_ptr": numbers(count, loop.K * loop.N),
        "v_ptr": numbers(count, loop.K * loop.N).astype(ml_dtypes.float8_e5m2),
        "index_ptr": rng.integers(0, iterations + 1, count).astype(np.int32),
        "y_ptr": np.zeros(loop.M * loop.N + 2 * loop.M, np.float32),
        "z_ptr": np.zeros(loop.M * loop.K, dtype),
        "n": np.int32(iterations),
    }
    constants = asdict(loop) | {"COUNT": iterations if pick(3) == 0 else -1}
    return jitted.case(dot_loop, (1, 1, 1), arguments, constants)
