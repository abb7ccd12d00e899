"""C = A Bᵀ, the first listing of the paper that introduced Triton, written in Python.

python examples/matmul_nt.py --sizes 300 270 200

The paper (Tillet, Kung, Cox: "Triton: An Intermediate Language and Compiler for Tiled Neural
Network Computations", MAPL 2019) writes this kernel in a dialect of C. Its lines there and here:

    int rm[TM] = get_global_range(0);       rm = tl.program_id(0) * TM + tl.arange(0, TM)
    a + rm[:, newaxis] + rk * M             a + rm[:, None] + rk * M
    for (int k = K; k >= 0; k -= TK)        for k in range(K, 0, -TK)
    float A[TM, TK] = check_a ? *pa : 0;    A = tl.load(pa, mask=check_a, other=0.0)
    @check_c *pc = C;                       tl.store(pc, C, mask=check_c)

All matrices are column-major. The loop counts down the rest of K; its iteration for k = 0, which
loads nothing, is omitted. The pointers to B advance by N here, not by K as printed there, which is
only right for square B. The paper's `tunable` sizes are configurations of the autotuner.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from report import Report, positive, sum_error

import tile
import tile.language as tl


@tile.autotune(
    configs=[tile.Config({"TM": tm, "TN": tn, "TK": 16}) for tm in (32, 128) for tn in (32, 128)],
    key=["M", "N", "K"],
)
@tile.jit
def matmul_nt_kernel(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    # 1-D tiles of indices.
    rm = tl.program_id(0) * TM + tl.arange(0, TM)
    rn = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    # 2-D tile of accumulators.
    C = tl.zeros((TM, TN), dtype=tl.float32)
    # 2-D tiles of pointers; the next row is the next element, the next column is at M or N.
    pa = a + rm[:, None] + rk * M
    pb = b + rn[:, None] + rk * N
    for k in range(K, 0, -TK):
        check_k = rk < k
        check_a = (rm < M)[:, None] & check_k
        check_b = (rn < N)[:, None] & check_k
        A = tl.load(pa, mask=check_a, other=0.0)
        B = tl.load(pb, mask=check_b, other=0.0)
        C += tl.dot(A, tl.trans(B), input_precision="ieee")
        pa = pa + TK * M
        pb = pb + TK * N
    # Write the accumulators back.
    pc = c + rm[:, None] + rn * M
    check_c = (rm < M)[:, None] & (rn < N)
    tl.store(pc, C, mask=check_c)


def matmul_nt(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return A Bᵀ of A (M x K) and B (N x K); all three are float32 and column-major."""
    (m, k), n = a.shape, b.shape[0]
    c = np.empty((m, n), np.float32, order="F")

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return tile.cdiv(m, meta["TM"]), tile.cdiv(n, meta["TN"])

    # An array is passed as a pointer to its first element; the kernel handles its strides.
    matmul_nt_kernel[grid](a, b, c, m, n, k)
    return c


def main() -> int:
    parser = argparse.ArgumentParser(description="matmul of a random matrix and a transposed one")
    parser.add_argument(
        "--sizes", type=positive, nargs=3, metavar=("M", "N", "K"), default=[300, 270, 200]
    )
    m, n, k = parser.parse_args().sizes
    rng = np.random.default_rng(0)
    a = np.asfortranarray(rng.standard_normal((m, k), dtype=np.float32))
    b = np.asfortranarray(rng.standard_normal((n, k), dtype=np.float32))
    expected = a.astype(np.float64) @ b.astype(np.float64).T

    report = Report(f"C = A Bᵀ, A is {m} x {k} and B is {n} x {k}, float32 by columns")
    allowed = sum_error(expected, k)
    report.measure("matmul_nt", lambda: {"C": matmul_nt(a, b)}, {"C": expected}, allowed)
    best = matmul_nt_kernel.best_config.kwargs
    print(f"\nTiles of {best['TM']} x {best['TN']} were fastest.")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
