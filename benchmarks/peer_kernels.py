"""Five kernels and their launches, with one source for this project's compiler and Triton.

`tile` compiles them, unless the environment variable TILE_PEER is `triton`. `CASES` has, by name,
the functions that create a kernel's inputs, launch it, read its output and compute the reference in
float64 with NumPy::

    prepared = CASES["softmax"].prepare(np.random.default_rng(0))
    prepared.launch()
    error = np.abs(prepared.output() - prepared.reference()).max()

Arrays are created by NumPy; `prepare` passes each through `to_device`, for a compiler that takes
another kind. Dots use full float32 precision (`ieee`), the only one of Triton's interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

if os.environ.get("TILE_PEER") == "triton":
    import triton as compiler
    import triton.language as tl
else:
    import tile as compiler
    import tile.language as tl

jit = compiler.jit

ToDevice = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Prepared:
    """A launch of a kernel, each run of which reads and writes the same arrays."""

    launch: Callable[[], object]
    result: Any
    """The array that the kernel writes, as `to_device` returned it."""
    reference: Callable[[], np.ndarray]
    """Computes the expected result in float64."""

    def output(self) -> np.ndarray:
        """Return the output of the last launch, as a NumPy array of the reference's shape."""
        return np.asarray(self.result)


@dataclass(frozen=True)
class Case:
    """A kernel at one problem size."""

    make: Callable[..., Prepared]
    sizes: dict[str, int]
    tolerance: float
    """The largest absolute error that rounding to float32 can cause."""

    def prepare(self, rng: np.random.Generator, to_device: ToDevice = np.asarray) -> Prepared:
        """Create inputs from `rng` and bind the launch to them."""
        return self.make(rng, to_device, **self.sizes)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return normally distributed float32 numbers."""
    return rng.standard_normal(shape, dtype=np.float32)


# Vector addition


@jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    y = tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, x + y, mask=inside)


def vector_add(rng: np.random.Generator, to_device: ToDevice, n: int, block: int) -> Prepared:
    """Prepare the sum of two vectors of `n` elements, `block` per program."""
    x, y = normal(rng, n), normal(rng, n)
    x_dev, y_dev, out = to_device(x), to_device(y), to_device(np.zeros(n, np.float32))
    grid = (compiler.cdiv(n, block),)

    return Prepared(
        launch=lambda: vector_add_kernel[grid](x_dev, y_dev, out, n, BLOCK=block),
        result=out,
        reference=lambda: x.astype(np.float64) + y,
    )


# Softmax of the rows of a matrix


@jit
def softmax_kernel(out_ptr, x_ptr, out_stride, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row * out_stride + column, result, mask=inside)


def softmax(rng: np.random.Generator, to_device: ToDevice, rows: int, columns: int) -> Prepared:
    """Prepare the softmax of each row, one row per program."""
    x = normal(rng, rows, columns)
    x_dev, out = to_device(x), to_device(np.zeros_like(x))
    block = compiler.next_power_of_2(columns)

    def reference() -> np.ndarray:
        powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return Prepared(
        launch=lambda: softmax_kernel[(rows,)](out, x_dev, columns, columns, columns, BLOCK=block),
        result=out,
        reference=reference,
    )


# Matmul


@jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    a_row,
    a_column,
    b_row,
    b_column,
    c_row,
    c_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Programs go down GROUP_M tile rows before they move to the next tile column.
    pid = tl.program_id(0)
    tile_rows = tl.cdiv(M, BLOCK_M)
    in_group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first_row = pid // in_group * GROUP_M
    group_rows = min(tile_rows - first_row, GROUP_M)
    tile_row = first_row + pid % in_group % group_rows
    tile_column = pid % in_group // group_rows

    # Rows and columns past the end wrap around; their results are not stored.
    row = (tile_row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    column = (tile_column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + row[:, None] * a_row + k[None, :] * a_column
    b_tile = b_ptr + k[:, None] * b_row + column[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_tile, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_tile, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_tile += BLOCK_K * a_column
        b_tile += BLOCK_K * b_row

    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + row[:, None] * c_row + column[None, :] * c_column, total, mask=inside)


def matmul(rng: np.random.Generator, to_device: ToDevice, size: int) -> Prepared:
    """Prepare a matmul of two square matrices with tiles of 64 x 64 x 32."""
    a, b = normal(rng, size, size), normal(rng, size, size)
    a_dev, b_dev, out = to_device(a), to_device(b), to_device(np.zeros_like(a))
    grid = (compiler.cdiv(size, 64) ** 2,)
    strides = (size, 1) * 3

    def launch() -> None:
        matmul_kernel[grid](
            a_dev,
            b_dev,
            out,
            *(size, size, size),
            *strides,
            BLOCK_M=64,
            BLOCK_N=64,
            BLOCK_K=32,
            GROUP_M=8,
        )

    return Prepared(launch, out, reference=lambda: a.astype(np.float64) @ b.astype(np.float64))


# Layer normalization, forward


@jit
def layer_norm_kernel(
    x_ptr,
    out_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    rstd_ptr,
    row_stride,
    columns,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    x_row = x_ptr + row * row_stride
    out_row = out_ptr + row * row_stride

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_row + column, mask=column < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + column, mask=column < columns, other=0.0)
        deviation = tl.where(column < columns, x - mean, 0.0)
        squares += deviation * deviation
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)

    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        x = tl.load(x_row + column, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
        bias = tl.load(bias_ptr + column, mask=inside, other=0.0)
        tl.store(out_row + column, (x - mean) * rstd * weight + bias, mask=inside)


def layer_norm(
    rng: np.random.Generator, to_device: ToDevice, rows: int, columns: int, block: int
) -> Prepared:
    """Prepare the normalization of rows to mean 0 and variance 1, with weight and bias."""
    x = normal(rng, rows, columns) * np.float32(2) + np.float32(0.5)
    weight, bias = normal(rng, columns), normal(rng, columns)
    x_dev, weight_dev, bias_dev = to_device(x), to_device(weight), to_device(bias)
    mean, rstd = to_device(np.zeros(rows, np.float32)), to_device(np.zeros(rows, np.float32))
    out = to_device(np.zeros_like(x))
    eps = 1e-5

    def launch() -> None:
        layer_norm_kernel[(rows,)](
            *(x_dev, out, weight_dev, bias_dev, mean, rstd), columns, columns, eps, BLOCK=block
        )

    def reference() -> np.ndarray:
        exact = x.astype(np.float64)
        spread = np.sqrt(exact.var(axis=1, keepdims=True) + eps)
        return (exact - exact.mean(axis=1, keepdims=True)) / spread * weight + bias

    return Prepared(launch, out, reference)


# Attention, forward


@jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    head_stride,
    row_stride,
    context,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    # A program handles BLOCK_M queries of one head, iterating over the keys in blocks of BLOCK_N.
    # `highest` and `weights` are each query's running maximum and sum of exp(score - highest).
    base = tl.program_id(1) * head_stride
    query = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    feature = tl.arange(0, HEAD)
    q_tile = base + query[:, None] * row_stride + feature[None, :]
    q = tl.load(q_ptr + q_tile, mask=query[:, None] < context, other=0.0)

    highest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    weights = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for start in range(0, context, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        present = key < context
        kv_tile = base + key[:, None] * row_stride + feature[None, :]
        k = tl.load(k_ptr + kv_tile, mask=present[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(present[None, :], scores, float("-inf"))

        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp(highest - new_highest)
        powers = tl.exp(scores - new_highest[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_ptr + kv_tile, mask=present[:, None], other=0.0)
        total = tl.dot(powers, v, total * shrink[:, None], input_precision="ieee")
        highest = new_highest

    tl.store(out_ptr + q_tile, total / weights[:, None], mask=query[:, None] < context)


def attention(
    rng: np.random.Generator, to_device: ToDevice, batch: int, heads: int, context: int, head: int
) -> Prepared:
    """Prepare softmax(Q Kᵀ / √head) V; all four are batch x heads x context x head."""
    shape = (batch, heads, context, head)
    q, k, v = normal(rng, *shape), normal(rng, *shape), normal(rng, *shape)
    tensors = tuple(to_device(array) for array in (q, k, v, np.zeros_like(q)))
    scale = head**-0.5
    grid = (compiler.cdiv(context, 64), batch * heads)

    def launch() -> None:
        attention_kernel[grid](
            *tensors, scale, context * head, head, context, BLOCK_M=64, BLOCK_N=64, HEAD=head
        )

    def reference() -> np.ndarray:
        scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True) @ v.astype(np.float64)

    return Prepared(launch, tensors[-1], reference)


CASES: dict[str, Case] = {
    "add 2^20": Case(vector_add, {"n": 1 << 20, "block": 1024}, tolerance=1e-6),
    "softmax 1823x781": Case(softmax, {"rows": 1823, "columns": 781}, tolerance=1e-6),
    "matmul 512^3": Case(matmul, {"size": 512}, tolerance=5e-4),
    "matmul 1024^3": Case(matmul, {"size": 1024}, tolerance=1e-3),
    "layer norm 1024x1024": Case(
        layer_norm, {"rows": 1024, "columns": 1024, "block": 256}, tolerance=5e-5
    ),
    "attention 2x512x64": Case(
        attention, {"batch": 1, "heads": 2, "context": 512, "head": 64}, tolerance=5e-6
    ),
}
