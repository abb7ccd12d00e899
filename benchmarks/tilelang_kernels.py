"""A matmul in TileLang, as a peer of `benchmarks/paper.py`.

TileLang evaluates annotations when it reads a kernel, so they are no strings here.
"""

import tilelang
import tilelang.language as T  # noqa: N812 - its own name


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, BM, BN, BK, stages, threads):
    """Return the kernel of a matmul of float16 matrices, M x K and K x N, which allocates it."""

    @T.prim_func
    def kernel(
        a: T.Tensor((M, K), "float16"),
        b: T.Tensor((K, N), "float16"),
        c: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=threads) as (column, row):
            a_tile = T.alloc_shared((BM, BK), "float16")
            b_tile = T.alloc_shared((BK, BN), "float16")
            total = T.alloc_fragment((BM, BN), "float32")
            T.clear(total)
            for step in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(a[row * BM, step * BK], a_tile)
                T.copy(b[step * BK, column * BN], b_tile)
                T.gemm(a_tile, b_tile, total)
            T.copy(total, c[row * BM, column * BN])

    return kernel
