"""Multiply matrices by as many programs as the device runs at once, by pointers and by descriptors."""

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def block_of(tile_id, num_pid_in_group, num_pid_m, GROUP_M: tl.constexpr):
    first = (tile_id // num_pid_in_group) * GROUP_M
    size = min(num_pid_m - first, GROUP_M)
    return first + tile_id % size, (tile_id % num_pid_in_group) // size


def name_launch(grid, kernel, args):
    m, n, k = args["M"], args["N"], args["K"]
    return {"name": f"{kernel.name} [M={m}, N={n}, K={k}]", "flops16": 2.0 * m * n * k}


@triton.jit(launch_metadata=name_launch)
def persistent_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    for tile_id in tl.range(
        tl.program_id(0), num_pid_m * num_pid_n, tl.num_programs(0), flatten=True
    ):
        pid_m, pid_n = block_of(tile_id, GROUP_M * num_pid_n, num_pid_m, GROUP_M)
        rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), 1), 1)
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            inner = step * BLOCK_K + along
            a = tl.load(
                a_ptr + rows[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0
            )
            b = tl.load(
                b_ptr + inner[:, None] * N + columns[None, :],
                mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0,
            )  # fmt: skip
            sums = tl.dot(a, b, sums)
        rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], sums.to(tl.float16), mask=inside)


@triton.jit(launch_metadata=name_launch)
def descriptor_kernel(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, EPILOGUE_SUBTILE: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    for tile_id in tl.range(
        tl.program_id(0), num_pid_m * num_pid_n, tl.num_programs(0),
        flatten=False, warp_specialize=WARP_SPECIALIZE,
    ):  # fmt: skip
        pid_m, pid_n = block_of(tile_id, GROUP_M * num_pid_n, num_pid_m, GROUP_M)
        row, column = pid_m * BLOCK_M, pid_n * BLOCK_N
        sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([row, step * BLOCK_K])
            b = b_desc.load([column, step * BLOCK_K])
            sums = tl.dot(a, b.T, sums)
        if EPILOGUE_SUBTILE:
            halves = tl.permute(tl.reshape(sums, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([row, column], left.to(tl.float16))
            c_desc.store([row, column + BLOCK_N // 2], right.to(tl.float16))
        else:
            c_desc.store([row, column], sums.to(tl.float16))


def programs(M, N, BLOCK_M, BLOCK_N):
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    blocks = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    return (min(properties["multiprocessor_count"], blocks),)


def by_pointers(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = np.empty((M, N), np.float16)
    persistent_kernel[programs(M, N, 32, 32)](
        a, np.ascontiguousarray(b.T), c, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, GROUP_M=8
    )
    return c


def by_descriptors(a, b, subtile):
    (M, K), N = a.shape, b.shape[0]
    c = np.empty((M, N), np.float16)
    width = 16 if subtile else 32
    blocks = ((a, [32, 16]), (b, [32, 16]), (c, [32, width]))
    described = [TensorDescriptor.from_tensor(array, block) for array, block in blocks]
    descriptor_kernel[programs(M, N, 32, 32)](
        *described, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, GROUP_M=8,
        EPILOGUE_SUBTILE=subtile, WARP_SPECIALIZE=True,
    )  # fmt: skip
    return c


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a = rng.standard_normal((100, 64)).astype(np.float16)
    b = rng.standard_normal((72, 64)).astype(np.float16)  # transposed
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    for c in (by_pointers(a, b), by_descriptors(a, b, False), by_descriptors(a, b, True)):
        np.testing.assert_allclose(c, exact, atol=2e-2, rtol=1e-2)
    print("persistent matmul: equal")
