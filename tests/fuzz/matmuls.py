"""Matmuls by tiles, varied in how they load, loop over tiles, and store: what TMA and producer warps do.

Elements are small integers, so that every order of summation gives the same.
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

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.int8, ml_dtypes.float8_e4m3fn)
OUTS = (np.float32, np.float16, ml_dtypes.bfloat16)
ROWS, COLUMNS, DEPTHS = (16, 64, 64, 128), (16, 32, 64, 128), (16, 32, 64)
MOST = 16384  # elements of a tile
DEPTH_TILES = 5  # at most
ALIGNED = 16  # elements: rows that TMA copies begin at multiples of 16 bytes


@dataclass(frozen=True)
class Matmul:
    """The constants of the kernel below."""

    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    LOADS: int  # 0: pointers and masks, 1: descriptors, 2: carried pointers, the depth masked
    STORES: int  # 0: pointers and masks, 1: a descriptor, 2: a descriptor, by halves of columns
    LEFT_TRANSPOSED: bool
    RIGHT_TRANSPOSED: bool
    PERSISTENT: bool
    FLATTEN: bool
    WARP_SPECIALIZE: bool | None
    EPILOGUE: (
        int  # 0: none, 1: a bias, 2: no negative numbers, 3: the sums of rows, added atomically
    )
    PRECISION: str  # of f32
    STAGES: int

    @classmethod
    def draw(cls, pick: Pick) -> Matmul:
        """Return one whose tiles have at most `MOST` elements."""
        rows = ROWS[pick(len(ROWS))]
        persistent = pick(2) == 1
        return cls(
            BLOCK_M=rows,
            BLOCK_N=min(COLUMNS[pick(len(COLUMNS))], MOST // rows),
            BLOCK_K=DEPTHS[pick(len(DEPTHS))],
            LOADS=(0, 1, 1, 2)[pick(4)],
            STORES=pick(3),
            LEFT_TRANSPOSED=pick(3) == 0,
            RIGHT_TRANSPOSED=pick(3) == 0,
            PERSISTENT=persistent,
            FLATTEN=persistent and pick(2) == 1,
            WARP_SPECIALIZE=(None, None, True, False)[pick(4)],
            EPILOGUE=pick(4),
            PRECISION=("ieee", "tf32")[pick(2)],
            STAGES=pick(5),
        )


@tile.jit
def block(
    ptr, row, column, rows, columns, pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, LOADS: tl.constexpr,
):  # fmt: skip
    """A tile of a matrix; 0 outside of it."""
    if LOADS == 1:
        matrix = tl.make_tensor_descriptor(ptr, [rows, columns], [pitch, 1], [ROWS, COLUMNS])
        return matrix.load([row, column])
    i = row + tl.arange(0, ROWS)[:, None]
    j = column + tl.arange(0, COLUMNS)[None, :]
    return tl.load(ptr + i * pitch + j, mask=(i < rows) & (j < columns), other=0)


@tile.jit
def operand(
    ptr, row, column, rows, columns, pitch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TRANSPOSED: tl.constexpr, LOADS: tl.constexpr,
):  # fmt: skip
    """A tile of a matrix that may be stored transposed."""
    if TRANSPOSED:
        return tl.trans(block(ptr, column, row, columns, rows, pitch, COLUMNS, ROWS, LOADS))
    return block(ptr, row, column, rows, columns, pitch, ROWS, COLUMNS, LOADS)


@tile.jit
def sums(
    a_ptr, b_ptr, row, column, m, n, k, a_pitch, b_pitch,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LOADS: tl.constexpr,
    LEFT_TRANSPOSED: tl.constexpr, RIGHT_TRANSPOSED: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """A tile of the result."""
    total = tl.zeros((BLOCK_M, BLOCK_N), SUM)
    stages: tl.constexpr = STAGES if STAGES > 0 else None
    if LOADS == 2:
        i = (row + tl.arange(0, BLOCK_M)) % m
        j = (column + tl.arange(0, BLOCK_N)) % n
        depth = tl.arange(0, BLOCK_K)
        if LEFT_TRANSPOSED:
            left = a_ptr + i[:, None] + depth[None, :] * a_pitch
        else:
            left = a_ptr + i[:, None] * a_pitch + depth[None, :]
        if RIGHT_TRANSPOSED:
            right = b_ptr + depth[:, None] + j[None, :] * b_pitch
        else:
            right = b_ptr + depth[:, None] * b_pitch + j[None, :]
        for step in tl.range(
            tl.cdiv(k, BLOCK_K), num_stages=stages, warp_specialize=WARP_SPECIALIZE
        ):
            a = tl.load(left, mask=depth[None, :] < k - step * BLOCK_K, other=0)
            b = tl.load(right, mask=depth[:, None] < k - step * BLOCK_K, other=0)
            total = tl.dot(a, b, total, input_precision=PRECISION)
            left += BLOCK_K * (a_pitch if LEFT_TRANSPOSED else 1)
            right += BLOCK_K * (1 if RIGHT_TRANSPOSED else b_pitch)
    else:
        for at in tl.range(0, k, BLOCK_K, num_stages=stages, warp_specialize=WARP_SPECIALIZE):
            a = operand(a_ptr, row, at, m, k, a_pitch, BLOCK_M, BLOCK_K, LEFT_TRANSPOSED, LOADS)
            b = operand(b_ptr, at, column, k, n, b_pitch, BLOCK_K, BLOCK_N, RIGHT_TRANSPOSED, LOADS)
            total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@tile.jit
def put(
    c_ptr, values, row, column, m, n, pitch,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STORES: tl.constexpr,
):  # fmt: skip
    """Store a tile of the result, as far as it is inside of it."""
    if STORES == 0:
        i = row + tl.arange(0, BLOCK_M)[:, None]
        j = column + tl.arange(0, BLOCK_N)[None, :]
        tl.store(c_ptr + i * pitch + j, values, mask=(i < m) & (j < n))
    elif STORES == 1:
        c = tl.make_tensor_descriptor(c_ptr, [m, n], [pitch, 1], [BLOCK_M, BLOCK_N])
        c.store([row, column], values)
    else:
        half: tl.constexpr = BLOCK_N // 2
        c = tl.make_tensor_descriptor(c_ptr, [m, n], [pitch, 1], [BLOCK_M, half])
        both = tl.permute(tl.reshape(values, (BLOCK_M, 2, half)), (0, 2, 1))
        first, second = tl.split(both)
        c.store([row, column], first)
        c.store([row, column + half], second)


@tile.jit
def result(
    a_ptr, b_ptr, c_ptr, bias_ptr, rows_ptr, number, m, n, k, a_pitch, b_pitch, c_pitch,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LOADS: tl.constexpr,
    STORES: tl.constexpr, LEFT_TRANSPOSED: tl.constexpr, RIGHT_TRANSPOSED: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr, EPILOGUE: tl.constexpr, PRECISION: tl.constexpr,
    STAGES: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Compute and store the tile of a number."""
    columns = tl.cdiv(n, BLOCK_N)
    row, column = number // columns * BLOCK_M, number % columns * BLOCK_N
    total = sums(a_ptr, b_ptr, row, column, m, n, k, a_pitch, b_pitch, BLOCK_M, BLOCK_N, BLOCK_K,
                 LOADS, LEFT_TRANSPOSED, RIGHT_TRANSPOSED, WARP_SPECIALIZE, PRECISION, STAGES,
                 SUM)  # fmt: skip
    if EPILOGUE == 1:
        j = column + tl.arange(0, BLOCK_N)
        total += tl.load(bias_ptr + j, mask=j < n, other=0).to(SUM)[None, :]
    elif EPILOGUE == 2:
        total = tl.maximum(total, 0)
    elif EPILOGUE == 3:
        i = row + tl.arange(0, BLOCK_M)
        inside = (column + tl.arange(0, BLOCK_N) < n)[None, :]
        tl.atomic_add(
            rows_ptr + i, tl.sum(tl.where(inside, total, 0), axis=1).to(tl.int32), mask=i < m
        )
    put(c_ptr, total.to(c_ptr.dtype.element_ty), row, column, m, n, c_pitch, BLOCK_M, BLOCK_N,
        STORES)  # fmt: skip


@tile.jit
def matmul(
    a_ptr, b_ptr, c_ptr, bias_ptr, rows_ptr, m, n, k, a_pitch, b_pitch, c_pitch,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, LOADS: tl.constexpr,
    STORES: tl.constexpr, LEFT_TRANSPOSED: tl.constexpr, RIGHT_TRANSPOSED: tl.constexpr,
    PERSISTENT: tl.constexpr, FLATTEN: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
    EPILOGUE: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr, SUM: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """See the top. DEPTH: `k` as a constant; -1 for none."""
    k = DEPTH if DEPTH >= 0 else k
    if PERSISTENT:
        count = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
        for number in tl.range(
            tl.program_id(0), count, tl.num_programs(0), flatten=FLATTEN,
            warp_specialize=WARP_SPECIALIZE,
        ):  # fmt: skip
            result(a_ptr, b_ptr, c_ptr, bias_ptr, rows_ptr, number, m, n, k, a_pitch, b_pitch,
                   c_pitch, BLOCK_M, BLOCK_N, BLOCK_K, LOADS, STORES, LEFT_TRANSPOSED,
                   RIGHT_TRANSPOSED, None, EPILOGUE, PRECISION, STAGES, SUM)  # fmt: skip
    else:
        result(a_ptr, b_ptr, c_ptr, bias_ptr, rows_ptr, tl.program_id(0), m, n, k, a_pitch, b_pitch,
               c_pitch, BLOCK_M, BLOCK_N, BLOCK_K, LOADS, STORES, LEFT_TRANSPOSED,
               RIGHT_TRANSPOSED, WARP_SPECIALIZE, EPILOGUE, PRECISION, STAGES, SUM)  # fmt: skip


def make(pick: Pick) -> Case:
    """Return a kernel with its grid and arguments, as `pick` chooses."""
    options = Matmul.draw(pick)
    dtype = np.dtype(DTYPES[pick(len(DTYPES))])
    m, n = 1 + pick(2 * options.BLOCK_M + 8), 1 + pick(2 * options.BLOCK_N + 8)
    k = pick(DEPTH_TILES * options.BLOCK_K + 1)
    if pick(2):  # no edges
        m, n = (-(-x // y) * y for x, y in ((m, options.BLOCK_M), (n, options.BLOCK_N)))
        k = -(-k // options.BLOCK_K) * options.BLOCK_K
    whole = dtype.kind == "i"
    out = np.dtype(np.int32) if whole else np.dtype(OUTS[pick(len(OUTS))])
    aligned = options.LOADS == 1 or pick(2) == 1
    rng = np.random.default_rng(pick(1000))

    def matrix(rows: int, columns: int) -> Any:
        step = ALIGNED if aligned else 1
        shape = max(rows, 1), -(-max(columns, 1) // step) * step
        return rng.integers(-2, 3, shape).astype(dtype)

    a = matrix(k, m) if options.LEFT_TRANSPOSED else matrix(m, k)
    b = matrix(n, k) if options.RIGHT_TRANSPOSED else matrix(k, n)
    c = rng.integers(-2, 3, (m, -(-n // ALIGNED) * ALIGNED)).astype(out)
    tiles = -(-m // options.BLOCK_M) * -(-n // options.BLOCK_N)
    arguments = {
        "a_ptr": a,
        "b_ptr": b,
        "c_ptr": c,
        "bias_ptr": rng.integers(-2, 3, n).astype(np.float32),
        "rows_ptr": np.zeros(m, np.int32),
        **{name: np.int32(value) for name, value in (("m", m), ("n", n), ("k", k))},
        "a_pitch": np.int32(a.shape[1]),
        "b_pitch": np.int32(b.shape[1]),
        "c_pitch": np.int32(c.shape[1]),
    }
    programs = 1 + pick(tiles) if options.PERSISTENT else tiles
    depth = k if pick(3) == 0 else -1
    constants = asdict(options) | {"SUM": tl.int32 if whole else tl.float32, "DEPTH": depth}
    return jitted.case(matmul, (programs, 1, 1), arguments, constants)
