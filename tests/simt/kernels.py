"""Kernels that between them use every way in which threads hand values to each other.

Each comes with types, sizes and data small enough for the thread machine, and large enough that
several warps share every tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tile
import tile.language as tl

Arrays = list[Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel with arguments: arrays and numbers by position, constants by name."""

    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    grid: tuple[int, int, int]
    arguments: Callable[[], Arrays]
    options: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 0.0  # of floating-point results whose sums may be ordered otherwise

    def compile(self, target: str, **options: Any) -> Any:
        """The compiled kernel for a target such as `interp` or `interp:mma`."""
        chosen = {**self.options, **options}
        return tile.compile(self.function, self.signature, self.constants, chosen, target)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Random numbers of a type: normal floats, small integers."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return random.integers(0, 100, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


@tile.jit
def transpose(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tl.program_id(0) * N * N + i * N + j)
    tl.store(y_ptr + tl.program_id(0) * N * N + i * N + j, tl.trans(x))


@tile.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SUMS: tl.constexpr = tl.float32,
    PRECISION: tl.constexpr = "ieee",
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=SUMS)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k, other=0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k, other=0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        a_ptrs += BK
        b_ptrs += BK * N
    c = total.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], c)


@tile.jit
def matmul_blocks(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


@tile.jit
def attention_blocks(q_ptr, k_ptr, v_ptr, out_ptr, context, N: tl.constexpr, D: tl.constexpr):
    """As below, with descriptors: operands that change from dot to dot."""
    q = tl.make_tensor_descriptor(q_ptr, [context, D], [D, 1], [N, D])
    keys = tl.make_tensor_descriptor(k_ptr, [context, D], [D, 1], [N, D])
    values = tl.make_tensor_descriptor(v_ptr, [context, D], [D, 1], [N, D])
    out = tl.make_tensor_descriptor(out_ptr, [context, D], [D, 1], [N, D])
    first = tl.program_id(0) * N
    mine = q.load([first, 0])
    highest = tl.full((N,), float("-inf"), dtype=tl.float32)
    weights = tl.zeros((N,), dtype=tl.float32)
    total = tl.zeros((N, D), dtype=tl.float32)
    for start in range(0, context, N):
        scores = tl.dot(mine, tl.trans(keys.load([start, 0])))
        above = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - above)
        powers = tl.exp2(scores - above[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = values.load([start, 0])
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None])
        highest = above
    out.store([first, 0], total / weights[:, None])


@tile.jit
def softmax(x_ptr, y_ptr, columns, N: tl.constexpr):
    row = tl.program_id(0) * columns
    j = tl.arange(0, N)
    x = tl.load(x_ptr + row + j, mask=j < columns, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + j, powers / tl.sum(powers, axis=0), mask=j < columns)


@tile.jit
def row_sums(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    total = tl.zeros((M,), dtype=tl.float32)
    for k in range(3):
        x = tl.load(x_ptr + k * M * N + i[:, None] * N + j[None, :])
        total += tl.sum(x, axis=1)
    tl.store(y_ptr + i, total)


@tile.jit
def column_sums(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    tl.store(y_ptr + j, tl.sum(x, axis=0))


@tile.jit
def running_sum(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.cumsum(tl.load(x_ptr + i), axis=0))


@tile.jit
def sorting(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + i, tl.sort(tl.load(x_ptr + i)))


@tile.jit
def gathering(x_ptr, index_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(index_ptr + i), axis=1))


@tile.jit
def counting(x_ptr, y_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@tile.jit
def ranking(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr + tl.arange(0, N), tl.scatter(x, tl.rank(x & 63, 64)))


@tile.jit
def greatest(x_ptr, value_ptr, place_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    value, place = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + tl.program_id(0), value)
    tl.store(place_ptr + tl.program_id(0), place)


@tile.jit
def tickets(counter_ptr, y_ptr, N: tl.constexpr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(y_ptr + ticket * N + tl.arange(0, N), ticket + tl.arange(0, N))


@tile.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, context, N: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + d[None, :])
    highest = tl.full((N,), float("-inf"), dtype=tl.float32)
    weights = tl.zeros((N,), dtype=tl.float32)
    total = tl.zeros((N, D), dtype=tl.float32)
    for start in range(0, context, N):
        j = start + tl.arange(0, N)
        k = tl.load(k_ptr + j[:, None] * D + d[None, :])
        scores = tl.dot(q, tl.trans(k))
        above = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - above)
        powers = tl.exp2(scores - above[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_ptr + j[:, None] * D + d[None, :])
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None])
        highest = above
    tl.store(out_ptr + i[:, None] * D + d[None, :], total / weights[:, None])


@tile.jit
def gradient(
    q_ptr, k_ptr, v_ptr, do_ptr, log_ptr, dk_ptr, dv_ptr, context, N: tl.constexpr, D: tl.constexpr
):
    j = tl.program_id(0) * N + tl.arange(0, N)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + j[:, None] * D + d[None, :])
    v = tl.load(v_ptr + j[:, None] * D + d[None, :])
    dk = tl.zeros((N, D), dtype=tl.float32)
    dv = tl.zeros((N, D), dtype=tl.float32)
    for start in range(0, context, N):
        i = start + tl.arange(0, N)
        q = tl.load(q_ptr + i[:, None] * D + d[None, :])
        do = tl.load(do_ptr + i[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(k, tl.trans(q)) - tl.load(log_ptr + i)[None, :])
        dv = tl.dot(p.to(v.dtype), do, dv)
        ds = p * tl.dot(v, tl.trans(do))
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(dk_ptr + j[:, None] * D + d[None, :], dk)
    tl.store(dv_ptr + j[:, None] * D + d[None, :], dv)


@tile.jit
def pairs(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    even, odd = tl.split(tl.reshape(tl.load(x_ptr + i), (N // 2, 2)))
    joined = tl.interleave(odd, even)
    tl.store(y_ptr + i, tl.flip(joined, 0))


@tile.jit
def norm(x_ptr, weight_ptr, y_ptr, columns, N: tl.constexpr):
    row = tl.program_id(0) * columns
    j = tl.arange(0, N)
    inside = j < columns
    x = tl.load(x_ptr + row + j, mask=inside, other=0.0).to(tl.float32)
    centered = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + 1e-5)
    weight = tl.load(weight_ptr + j, mask=inside, other=0.0, eviction_policy="evict_last")
    y = (centered * scale * weight).to(tl.float16)
    tl.store(y_ptr + row + j, y, mask=inside, eviction_policy="evict_first")


@tile.jit
def adding(x_ptr, sums_ptr, f16_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.flip(tl.load(x_ptr + tl.program_id(0) * N + i), 0)
    tl.atomic_add(sums_ptr + i, x.to(tl.float32), sem="relaxed")
    tl.atomic_add(f16_ptr + i, x.to(tl.float16), mask=i < N - 16)


@tile.jit
def combining(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, tl.sum(x, axis=0))
    tl.store(y_ptr + 1, tl.max(x, axis=0))
    tl.store(y_ptr + 2, tl.min(x, axis=0))
    tl.store(y_ptr + 3, tl.xor_sum(x, axis=0))


def _matmul(
    dtype: Any,
    name: str,
    m: int,
    n: int,
    k: int,
    blocks: tuple[int, int, int],
    into: tuple[Any, str] = (np.float32, "fp32"),
    constants: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    function: Any = matmul,
    columns: str = "i32:16",
) -> Kernel:
    return Kernel(
        function,
        {
            "a_ptr": f"*{name}:16",
            "b_ptr": f"*{name}:16",
            "c_ptr": f"*{into[1]}:16",
            "M": "i32:16",
            "N": columns,
            "K": "i32:16",
        },
        dict(zip(("BM", "BN", "BK"), blocks, strict=True)) | dict(constants or {}),
        (m // blocks[0], n // blocks[1], 1),
        lambda: [
            numbers(m, k, dtype=dtype),
            numbers(k, n, dtype=dtype, seed=1),
            np.zeros((m, n), into[0]),
            np.int32(m),
            np.int32(n),
            np.int32(k),
        ],
        rtol=rtol,
    )


def _two(
    function: Any,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    constants: Mapping[str, Any],
    *,
    grid: int = 1,
    dtype: Any = np.float32,
    name: str = "fp32",
    result: str = "",
    rtol: float = 0.0,
    extra: tuple[int, ...] = (),
) -> Kernel:
    """A kernel from one array to another."""
    result_type = {"fp32": np.float32, "i32": np.int32, "fp16": np.float16}[result or name]
    signature = {"x_ptr": f"*{name}:16", "y_ptr": f"*{result or name}:16"}
    signature |= {"columns": "i32"} if extra else {}
    return Kernel(
        function,
        signature,
        constants,
        (grid, 1, 1),
        lambda: [
            numbers(*shape, dtype=dtype),
            np.zeros(out, result_type),
            *(np.int32(number) for number in extra),
        ],
        rtol=rtol,
    )


def _attention(function: Any, context: int = 128, head: int = 32) -> Kernel:
    pointers = ("q_ptr", "k_ptr", "v_ptr", "out_ptr")
    types = ("*fp16:16", "*fp16:16", "*fp16:16", "*fp32:16", "i32:16")
    return Kernel(
        function,
        dict(zip((*pointers, "context"), types)),
        {"N": 64, "D": head},
        (2, 1, 1),
        lambda: [
            *(numbers(context, head, dtype=np.float16, seed=seed) for seed in range(3)),
            np.zeros((context, head), np.float32),
            np.int32(context),
        ],
        rtol=1e-2,
    )


KERNELS: dict[str, Kernel] = {
    "transpose": _two(transpose, (2, 64, 64), (2, 64, 64), {"N": 64}, grid=2),
    "transpose_f16": _two(transpose, (64, 64), (64, 64), {"N": 64}, dtype=np.float16, name="fp16"),
    "matmul_f32": _matmul(np.float32, "fp32", 64, 64, 80, (32, 32, 16)),
    "matmul_f16": _matmul(np.float16, "fp16", 128, 64, 128, (64, 64, 32)),
    "matmul_narrow_rows": _matmul(
        np.float16,
        "fp16",
        128,
        64,
        128,
        (64, 64, 32),
        columns="i32",  # so B is loaded by elements
    ),
    "matmul_into_f16": _matmul(
        np.float16, "fp16", 128, 64, 128, (64, 64, 32), (np.float16, "fp16")
    ),
    "matmul_tf32": _matmul(
        np.float32, "fp32", 128, 64, 160, (64, 64, 32), constants={"PRECISION": "tf32"}, rtol=1e-2
    ),
    "matmul_i8": _matmul(
        np.int8, "i8", 128, 64, 320, (64, 64, 64), (np.int32, "i32"), {"SUMS": tl.int32}
    ),
    "matmul_blocks": _matmul(
        np.float16, "fp16", 128, 64, 144, (64, 64, 32), (np.float16, "fp16"), function=matmul_blocks
    ),
    "softmax": _two(softmax, (3, 1000), (3, 1000), {"N": 1024}, grid=3, rtol=1e-5, extra=(1000,)),
    "row_sums": _two(row_sums, (3, 2, 1024), (2,), {"M": 2, "N": 1024}, rtol=1e-4),
    "column_sums": _two(column_sums, (128, 32), (32,), {"M": 128, "N": 32}, rtol=1e-4),
    "running_sum": _two(running_sum, (1024,), (1024,), {"N": 1024}, dtype=np.int32, name="i32"),
    "sorting": _two(sorting, (2, 512), (2, 512), {"M": 2, "N": 512}),
    "gathering": Kernel(
        gathering,
        {"x_ptr": "*fp32:16", "index_ptr": "*i32:16", "y_ptr": "*fp32:16"},
        {"M": 8, "N": 64},
        (1, 1, 1),
        lambda: [
            numbers(8, 64),
            np.random.default_rng(1).integers(0, 64, (8, 64)).astype(np.int32),
            np.zeros((8, 64), np.float32),
        ],
    ),
    "counting": _two(counting, (512,), (128,), {"N": 512, "BINS": 128}, dtype=np.int32, name="i32"),
    "ranking": _two(ranking, (1024,), (1024,), {"N": 1024}, dtype=np.int32, name="i32"),
    "greatest": Kernel(
        greatest,
        {"x_ptr": "*fp32:16", "value_ptr": "*fp32", "place_ptr": "*i32"},
        {"N": 512},
        (2, 1, 1),
        lambda: [numbers(2, 512), np.zeros(2, np.float32), np.zeros(2, np.int32)],
    ),
    "tickets": Kernel(
        tickets,
        {"counter_ptr": "*i32", "y_ptr": "*i32"},
        {"N": 256},
        (4, 1, 1),
        lambda: [np.zeros(1, np.int32), np.zeros((4, 256), np.int32)],
    ),
    "attention": _attention(attention, 256),
    "attention_blocks": _attention(attention_blocks, 256, 16),
    "gradient": Kernel(
        gradient,
        {
            **{f"{name}_ptr": "*fp16:16" for name in ("q", "k", "v", "do")},
            **{f"{name}_ptr": "*fp32:16" for name in ("log", "dk", "dv")},
            "context": "i32:16",
        },
        {"N": 64, "D": 32},
        (2, 1, 1),
        lambda: [
            *(numbers(256, 32, dtype=np.float16, seed=seed) for seed in range(4)),
            np.abs(numbers(256)) + 24,
            *(np.zeros((128, 32), np.float32) for _ in range(2)),
            np.int32(256),
        ],
        rtol=1e-2,
    ),
    "norm": Kernel(
        norm,
        {
            "x_ptr": "*fp16:16",
            "weight_ptr": "*fp16:16",
            "y_ptr": "*fp16:16",
            "columns": "i32:16",
        },
        {"N": 1024},
        (3, 1, 1),
        lambda: [
            numbers(3, 1008, dtype=np.float16),
            numbers(1008, dtype=np.float16, seed=1),
            np.zeros((3, 1008), np.float16),
            np.int32(1008),
        ],
        rtol=1e-3,
    ),
    "adding": Kernel(
        adding,
        {"x_ptr": "*i32:16", "sums_ptr": "*fp32:16", "f16_ptr": "*fp16:16"},
        {"N": 1024},
        (3, 1, 1),
        lambda: [
            numbers(3, 1024, dtype=np.int32),
            np.zeros(1024, np.float32),
            np.zeros(1024, np.float16),
        ],
    ),
    "combining": _two(combining, (1024,), (4,), {"N": 1024}, dtype=np.int32, name="i32"),
    "pairs": _two(pairs, (512,), (512,), {"N": 512}),
}
