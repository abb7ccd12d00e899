"""Matmul of any sizes, with an activation fused into the kernel.

python examples/matmul.py --sizes 300 270 190

A program computes one tile of C = f(A B), iterating over tiles of A and B along the inner axis.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from report import Report, positive, sum_error

import tile
import tile.language as tl


@tile.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def config(m: int, n: int, k: int) -> tile.Config:
    """Return a configuration with tiles of m x n of the result and a step of k in the loop."""
    return tile.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8})


# The best tiles depend on the sizes, so each new size is tuned again.
@tile.autotune(
    configs=[config(32, 32, 32), config(64, 64, 32), config(128, 64, 64)], key=["M", "N", "K"]
)
@tile.jit
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
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Co-resident programs should share operands in the L2 cache. In row-major order of C they would
    # only share rows of A, so they go down GROUP_M tiles before they move to the next column.
    pid = tl.program_id(0)
    in_group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first_row = pid // in_group * GROUP_M
    group_rows = min(tl.cdiv(M, BLOCK_M) - first_row, GROUP_M)
    tile_row = first_row + pid % in_group % group_rows
    tile_column = pid % in_group // group_rows

    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    row_inside = row[:, None] < M
    column_inside = column[None, :] < N

    # Blocks of pointers, advanced along the inner axis by one addition each.
    a_tile = a_ptr + row[:, None] * a_row + k[None, :] * a_column
    b_tile = b_ptr + k[:, None] * b_row + column[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for left in range(K, 0, -BLOCK_K):
        a = tl.load(a_tile, mask=row_inside & (k[None, :] < left), other=0.0)
        b = tl.load(b_tile, mask=column_inside & (k[:, None] < left), other=0.0)
        # "ieee": float32 operands in full precision, not rounded to tf32 for tensor cores.
        total = tl.dot(a, b, total, input_precision="ieee")
        a_tile += BLOCK_K * a_column
        b_tile += BLOCK_K * b_row

    # ACTIVATION is a compile-time constant, a function or None: it costs nothing if unused.
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    c_tile = c_ptr + row[:, None] * c_row + column[None, :] * c_column
    tl.store(c_tile, total.to(c_ptr.dtype.element_ty), mask=row_inside & column_inside)


def matmul(a: np.ndarray, b: np.ndarray, activation: object = None) -> np.ndarray:
    """Return activation(A B), accumulated in float32 and rounded to A's dtype; any strides."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), a.dtype)
    strides = [step // array.itemsize for array in (a, b, c) for step in array.strides]

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (tile.cdiv(m, meta["BLOCK_M"]) * tile.cdiv(n, meta["BLOCK_N"]),)

    matmul_kernel[grid](a, b, c, m, n, k, *strides, ACTIVATION=activation)
    return c


def check(report: Report, sizes: tuple[int, int, int], dtype: type[np.floating[Any]]) -> None:
    """Measure matmuls of random matrices of `dtype`, with B in row-major and column-major order."""
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    b_by_columns = np.asfortranarray(b)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    activated = np.where(expected >= 0, expected, 0.01 * expected)
    rounding = np.abs(expected).max() * np.finfo(dtype).eps / 2
    allowed = float(rounding) + sum_error(expected, k)

    name = np.dtype(dtype).name
    report.measure(name, lambda: {"C": matmul(a, b)}, {"C": expected}, allowed)
    report.measure(
        f"{name}, B by columns, leaky ReLU",
        lambda: {"C": matmul(a, b_by_columns, leaky_relu)},
        {"C": activated},
        allowed,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="products of random matrices")
    parser.add_argument(
        "--sizes", type=positive, nargs=3, metavar=("M", "N", "K"), default=[300, 270, 190]
    )
    m, n, k = parser.parse_args().sizes

    report = Report(f"C = f(A B), A is {m} x {k} and B is {k} x {n}")
    for dtype in (np.float32, np.float16):
        check(report, (m, n, k), dtype)
    best = matmul_kernel.best_config.kwargs
    print(f"\nTiles of {best['BLOCK_M']} x {best['BLOCK_N']} x {best['BLOCK_K']} were fastest.")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
