"""Layer norm forward and backward, the latter with a lock for each group of rows."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def forward(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    total = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        total += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def backward(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N,
    GROUP_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    lock_id = row % GROUP_SIZE_M
    Count = Lock + GROUP_SIZE_M + lock_id
    x = tl.load(X + row * stride + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + row * stride + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask, other=0).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + row * stride + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    partial_dw = dy * xhat
    partial_db = dy
    while tl.atomic_cas(Lock + lock_id, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW + lock_id * N + cols, mask=mask)
        partial_db += tl.load(DB + lock_id * N + cols, mask=mask)
    tl.store(DW + lock_id * N + cols, partial_dw, mask=mask)
    tl.store(DB + lock_id * N + cols, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock + lock_id, 0)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    M, N, GROUPS = 12, 100, 4
    x, dy = rng.standard_normal((2, M, N)).astype(np.float32)
    w, b = rng.standard_normal((2, N)).astype(np.float32)
    y, dx = np.empty_like(x), np.empty_like(x)
    mean, rstd = np.empty((2, M), np.float32)
    forward[(M,)](x, y, w, b, mean, rstd, N, N, 1e-5, BLOCK_SIZE=64, num_warps=4, num_ctas=1)
    hat = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, hat * w + b, atol=1e-5)
    dw, db = np.zeros((2, GROUPS, N), np.float32)
    locks = np.zeros(2 * GROUPS, np.int32)
    backward[(M,)](
        dx, dy, dw, db, x, w, mean, rstd, locks, N, N, GROUP_SIZE_M=GROUPS, BLOCK_SIZE_N=128
    )
    wdy = w * dy
    c1, c2 = (hat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    np.testing.assert_allclose(dx, (wdy - (hat * c1 + c2)) * rstd[:, None], atol=1e-4)
    np.testing.assert_allclose(dw.sum(0), (dy * hat).sum(0), atol=1e-4)
    np.testing.assert_allclose(db.sum(0), dy.sum(0), atol=1e-4)
    print("layer norm: equal")
