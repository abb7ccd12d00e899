"""Multiply several pairs of matrices of different shapes in one launch with a fixed number of programs.

The kernel gets arrays of addresses, shapes and leading dimensions, and each program walks over the
blocks of all results.
"""

import numpy as np
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "NUM_SM": 4}),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 32, "NUM_SM": 6}),
    ],
    key=["group_size"],
)
@triton.jit
def grouped_matmul_kernel(
    a_addresses, b_addresses, c_addresses, sizes, leading, group_size,
    NUM_SM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    end_of_last = 0
    for g in range(group_size):
        m = tl.load(sizes + g * 3)
        n = tl.load(sizes + g * 3 + 1)
        k = tl.load(sizes + g * 3 + 2)
        blocks_m = tl.cdiv(m, BLOCK_M)
        blocks_n = tl.cdiv(n, BLOCK_N)
        blocks = blocks_m * blocks_n
        while block >= end_of_last and block < end_of_last + blocks:
            lda = tl.load(leading + g * 3)
            ldb = tl.load(leading + g * 3 + 1)
            ldc = tl.load(leading + g * 3 + 2)
            a = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
            own = block - end_of_last
            rows = (own // blocks_n) * BLOCK_M + tl.arange(0, BLOCK_M)
            columns = (own % blocks_n) * BLOCK_N + tl.arange(0, BLOCK_N)
            along = tl.arange(0, BLOCK_K)
            sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, k, BLOCK_K):
                inner = start + along
                left = tl.load(
                    a + rows[:, None] * lda + inner[None, :],
                    mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0,
                )  # fmt: skip
                right = tl.load(
                    b + inner[:, None] * ldb + columns[None, :],
                    mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0,
                )  # fmt: skip
                sums += tl.dot(left, right)
            inside = (rows[:, None] < m) & (columns[None, :] < n)
            tl.store(c + rows[:, None] * ldc + columns[None, :], sums.to(tl.float16), mask=inside)
            block += NUM_SM
        end_of_last += blocks


def grouped_matmul(pairs):
    results = [np.zeros((a.shape[0], b.shape[1]), np.float16) for a, b in pairs]
    triples = [(a, b, c) for (a, b), c in zip(pairs, results, strict=True)]
    addresses = [
        np.array([triple[i].ctypes.data for triple in triples], np.int64) for i in range(3)
    ]
    sizes = np.array([(*a.shape, b.shape[1]) for a, b in pairs], np.int32)[:, [0, 2, 1]]
    leading = np.array([[x.shape[1] for x in triple] for triple in triples], np.int32)
    grouped_matmul_kernel[lambda meta: (meta["NUM_SM"],)](
        *addresses, np.ascontiguousarray(sizes), leading, len(pairs)
    )
    return results


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    shapes = [(64, 48, 32), (40, 33, 50), (16, 80, 16)]
    pairs = [
        tuple(rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
        for m, n, k in shapes
    ]
    for (a, b), c in zip(pairs, grouped_matmul(pairs), strict=True):
        exact = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_allclose(c, exact, atol=2e-2, rtol=1e-2)
    print("grouped gemm: equal")
