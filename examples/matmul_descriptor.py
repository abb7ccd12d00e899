"""Matrix product by tensor descriptors: arrays that know their bounds, read and written in boxes.

python examples/matmul_descriptor.py --sizes 300 270 190

Compared with `matmul.py` there are no blocks of pointers and no masks: a box that reaches beyond
the edge of a matrix is filled up with zeros, and what of it is outside is not written. Descriptors
are made on the host, as here those of A and B, or in the kernel, as that of C. Machines that copy
whole boxes need the rows of an array to begin at multiples of 16 bytes, so that is the rule.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from report import Report, positive

import tile
import tile.language as tl


def config(m: int, n: int, k: int) -> tile.Config:
    """Tiles of m x n of the result, k of the inner axis at a time.

    Before a launch with it, the descriptors are told to be read in boxes of these sizes.
    """

    def shape_boxes(arguments: dict[str, Any]) -> None:
        arguments["a"].block_shape = [m, k]
        arguments["b"].block_shape = [k, n]

    return tile.Config({"BLOCK_N": n}, pre_hook=shape_boxes)


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
    """The numbers in memory whose rows begin at multiples of 16 bytes."""
    rows, columns = values.shape
    step = 16 // np.dtype(dtype).itemsize
    whole = np.zeros((rows, -(-columns // step) * step), dtype)
    whole[:, :columns] = values
    return whole[:, :columns]


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B, accumulated in float32 and rounded to A's dtype, of matrices as `matrix` makes them."""
    (m, k), n = a.shape, b.shape[1]
    c = matrix(np.zeros((m, n)), a.dtype.type)
    any_box = [1, 16]  # until a configuration says which
    described = [tile.TensorDescriptor.from_tensor(x, any_box) for x in (a, b)]

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        block_m, _ = meta["a"].block_shape
        return tile.cdiv(m, block_m), tile.cdiv(n, meta["BLOCK_N"])

    matmul_kernel[grid](*described, c, m, n, k, c.strides[0] // c.itemsize)
    return c


def check(report: Report, sizes: tuple[int, int, int], dtype: type[np.floating[Any]]) -> None:
    """Measure the product of random matrices of `dtype`."""
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a = matrix(rng.standard_normal((m, k)), dtype)
    b = matrix(rng.standard_normal((k, n)), dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    # One rounding to `dtype`, and some last bits of float32 while adding up.
    allowed = float(np.abs(expected).max() * (np.finfo(dtype).eps / 2 + 4 * 2.0**-23))
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
