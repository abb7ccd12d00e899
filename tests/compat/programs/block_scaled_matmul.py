"""Multiply matrices of 4-bit floats with a scale for each 32 elements, which are stored in blocks.

Blocks of 128 x 4 scales are contiguous, as (32, 4, 4) of row mod 32, row div 32 and group: the order
in which tensor cores read them. The kernel brings them back into rows of groups.
"""

import numpy as np
import triton
import triton.language as tl

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
GROUP = 32


@triton.jit
def load_scales(scale_ptr, block, step, blocks_k):
    inner = tl.arange(0, 512).reshape(1, 1, 32, 4, 4)
    scales = tl.load(scale_ptr + (block * blocks_k + step) * 512 + inner)
    return scales.trans(0, 3, 2, 1, 4).reshape(128, 4)


@triton.jit
def block_scaled_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    pairs = tl.arange(0, BLOCK_K // 2)
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(K // BLOCK_K):
        inner = step * (BLOCK_K // 2) + pairs
        a = tl.load(a_ptr + rows[:, None] * (K // 2) + inner[None, :])
        b = tl.load(b_ptr + columns[:, None] * (K // 2) + inner[None, :])
        a_scale = load_scales(a_scale_ptr, pid_m, step, K // BLOCK_K)
        b_scale = load_scales(b_scale_ptr, pid_n, step, K // BLOCK_K)
        sums = tl.dot_scaled(a, a_scale, "e2m1", b.T, b_scale, "e2m1", sums)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], sums)


def in_blocks(scales):
    m, k = scales.shape
    return np.ascontiguousarray(scales.reshape(m // 128, 4, 32, k // 4, 4).transpose(0, 3, 2, 1, 4))


def matmul(a, a_scale, b, b_scale):
    (M, half), N = a.shape, b.shape[0]
    c = np.empty((M, N), np.float32)
    block_scaled_kernel[M // 128, N // 128](
        a, in_blocks(a_scale), b, in_blocks(b_scale), c, M, N, 2 * half,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=128,
    )  # fmt: skip
    return c


def numbers(packed, scale):
    values = np.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).reshape(len(packed), -1)
    return values * np.repeat(np.exp2(scale.astype(np.float32) - 127), GROUP, 1)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    M, N, K = 128, 256, 256
    a, b = (rng.integers(0, 256, (n, K // 2), np.uint8) for n in (M, N))
    a_scale, b_scale = (rng.integers(124, 131, (n, K // GROUP), np.uint8) for n in (M, N))
    exact = numbers(a, a_scale) @ numbers(b, b_scale).T
    np.testing.assert_allclose(matmul(a, a_scale, b, b_scale), exact, rtol=1e-5, atol=1e-3)
    print("block scaled matmul: equal")
