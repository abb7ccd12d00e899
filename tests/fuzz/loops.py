"""Loops of dots, varied in all that decides how loads are done ahead of their iterations.

All numbers are small integers, so that every order of summation gives the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import tile
import tile.language as tl

M, N, K = 32, 16, 32
ITERATIONS = 6  # the most


@dataclass(frozen=True)
class Loop:
    """The options of a loop; see the kernel."""

    LEFT: int  # 0: as it lies, 1: transposed, 2: a column of it for all, 3: through an index
    RIGHT: int  # 0: as it lies, 1: transposed, 2: converted, 3: the same in all iterations
    MASKED: int  # 0: not, 1: along the sum, 2: along the rows, 3: all false in some iterations
    CARRIED: bool  # pointers are carried rather than computed
    BRANCH: int  # 0: none, 1: around the dot, 2: around a load, 3: around a sum
    STORED: int  # 0: nothing, 1: an operand, 2: to what the next iteration loads, 3: atomically
    INNER: bool  # the dot is done in a loop of its own
    BARRIER: bool
    SCALAR: bool  # a scalar is loaded, and multiplies the dot
    REDUCED: bool  # sums of rows are taken too
    TWICE: bool  # a second dot of the same left operand
    STEP: int
    WISHED: int  # the loop's own num_stages; 0 for none

    def constants(self) -> dict[str, Any]:
        return asdict(self) | {"M": M, "N": N, "K": K}


LOOPS = st.builds(
    Loop,
    *(st.integers(0, 3) for _ in range(3)),
    st.booleans(),
    *(st.integers(0, 3) for _ in range(2)),
    *(st.booleans() for _ in range(5)),
    st.sampled_from([1, 2, -1]),
    st.sampled_from([0, 0, 1, 2, 3]),
)


@tile.jit
def varied(
    x_ptr, w_ptr, v_ptr, index_ptr, y_ptr, z_ptr, n,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    MASKED: tl.constexpr, CARRIED: tl.constexpr, BRANCH: tl.constexpr, STORED: tl.constexpr,
    INNER: tl.constexpr, BARRIER: tl.constexpr, SCALAR: tl.constexpr, REDUCED: tl.constexpr,
    TWICE: tl.constexpr, STEP: tl.constexpr, WISHED: tl.constexpr,
):  # fmt: skip
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
            b = tl.load(v_ptr + r * K * N + right_at).to(tl.float16)
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
        if SCALAR:
            a = a * tl.load(index_ptr + r).to(tl.float16)
        if BRANCH == 1:
            if r % 2 == 0:
                total = tl.dot(a, b, total)
        elif INNER:
            for s in range(2):
                c = tl.load(w_ptr + s * K * N + k[:, None] * N + j[None, :])
                total = tl.dot(a, c + b, total)
        else:
            total = tl.dot(a, b, total)
        if TWICE:
            total += tl.trans(tl.dot(tl.trans(b), tl.trans(a)))
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


SIGNATURE = {
    "x_ptr": "*fp16:16",
    "w_ptr": "*fp16:16",
    "v_ptr": "*fp8e5:16",
    "index_ptr": "*i32:16",
    "y_ptr": "*fp32:16",
    "z_ptr": "*fp16:16",
    "n": "i32",
}


def arguments(iterations: int) -> list[Any]:
    """Arrays that `iterations` fit, with one to spare that the last iteration may store to."""
    rng = np.random.default_rng(iterations)
    count = iterations + 2

    def numbers(*shape: int) -> Any:
        return rng.integers(-2, 3, shape).astype(np.float16)

    return [
        numbers(count, M * K),
        numbers(count, K * N),
        numbers(count, K * N).astype(ml_dtypes.float8_e5m2),
        rng.integers(0, iterations + 1, count).astype(np.int32),
        np.zeros(M * N + 2 * M, np.float32),
        np.zeros(M * K, np.float16),
        np.int32(iterations),
    ]
