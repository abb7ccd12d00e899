"""Matmul with tensor descriptors: arrays with bounds that are loaded and stored in blocks.

python examples/matmul_descriptor.py --sizes 300 270 190

Compared with `matmul.py` there are no blocks of pointers and no masks: a load pads a block that
reaches beyond the edge of a matrix with zeros, and a store skips its elements out of bounds.
Descriptors are created on the host, as those of A and B here, or in the kernel, as that of C.
Hardware that copies whole blocks (TMA) requires the rows of an array to begin at multiples of 16
bytes, so every descriptor does.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from report import Report, positive, sum_error

import tile
import tile.language as tl


def config(m: int, n: int, k: int) -> tile.Config:
    """Return a configuration with tiles of m x n of the result and a step of k in the loop.

    Before a launch with it, a hook sets the block shapes of the descriptors to these sizes.
    """

    def set_block_shapes(arguments: dict[str, Any]) -> None:
        arguments["a"].block_shape = [m, k]
        arguments["b"].block_shape = [k, n]

    return tile.Config({"BLOCK_N": n}, pre_hook=set_block_shapes)


@tile.autotune(
    configs=[config(32, 32, 32), config(64, 64, 32), config(128, 64, 64)], key=["M", "N", "K"]
)
@tile.jit
def matmul_kernel(a, b, c_ptr, M, N, K, pitch, BLOCK_N: tl.constexpr):
    BLOCK_M: tl.constexpr = a.block_shape[0]
    BLOCK_K: tl.constexpr = a.block_shape[1]
    c = tl.make_tensor_descriptor(
        c_ptr, shape=[M, N], strides=[pitch, 1], block_shape=[BLOCK_M, BLOCK_N]
    )
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    total = tl.zeros(c.block_shape, dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = a.load([row, k])
        y = b.load([k, column])
        total = tl.dot(x, y, total, input_precision="ieee")
    c.store([row, column], total.to(c.dtype))


def matrix(values: np.ndarray, dtype: type[np.floating[Any]]) -> np.ndarray:
    """Return a copy of an array whose rows begin at multiples of 16 bytes."""
    rows, columns = values.shape
    step = 16 // np.dtype(dtype).itemsize
    whole = np.zeros((rows, -(-columns // step) * step), dtype)
    whole[:, :columns] = values
    return whole[:, :columns]


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return A B, accumulated in float32 and rounded to A's dtype, of arrays from `matrix`."""
    (m, k), n = a.shape, b.shape[1]
    c = matrix(np.zeros((m, n)), a.dtype.type)
    any_block = [1, 16]  # until a configuration sets it
    descriptors = [tile.TensorDescriptor.from_tensor(x, any_block) for x in (a, b)]

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        block_m, _ = meta["a"].block_shape
        return tile.cdiv(m, block_m), tile.cdiv(n, meta["BLOCK_N"])

    matmul_kernel[grid](*descriptors, c, m, n, k, c.strides[0] // c.itemsize)
    return c


def check(report: Report, sizes: tuple[int, int, int], dtype: type[np.floating[Any]]) -> None:
    """Measure the matmul of random matrices of `dtype`."""
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a = matrix(rng.standard_normal((m, k)), dtype)
    b = matrix(rng.standard_normal((k, n)), dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    rounding = np.abs(expected).max() * np.finfo(dtype).eps / 2
    allowed = float(rounding) + sum_error(expected, k)
    report.measure(np.dtype(dtype).name, lambda: {"C": matmul(a, b)}, {"C": expected}, allowed)


def main() -> int:
    parser = argparse.ArgumentParser(description="products of random matrices")
    parser.add_argument(
        "--sizes", type=positive, nargs=3, metavar=("M", "N", "K"), default=[300, 270, 190]
    )
    m, n, k = parser.parse_args().sizes

    report = Report(f"C = A B by descriptors, A is {m} x {k} and B is {k} x {n}")
    for dtype in (np.float32, np.float16):
        check(report, (m, n, k), dtype)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
