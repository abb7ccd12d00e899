"""Idioms of kernels, as in the tutorials of Triton, that a type checker must accept; never compiled."""

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.language import exp, float32, load

N: tl.constexpr = 4
M = tl.constexpr(4)


@tile.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@tile.autotune(configs=[tile.Config({"BM": 4}, num_warps=4)], key=["m", "n"])
@tile.heuristics({"EVEN": lambda args: args["k"] % 2 == 0})
@tile.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    sa,
    sb,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
    EVEN: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(m, BM)
    num_pid_n = tl.cdiv(n, BN)
    in_group = GROUP_M * num_pid_n
    group_id = pid // in_group
    first = group_id * GROUP_M
    size = min(num_pid_m - first, GROUP_M)
    pid_m = first + ((pid % in_group) % size)
    pid_n = (pid % in_group) // size
    offs_am = (pid_m * BM + tl.arange(0, BM)) % m
    offs_bn = (pid_n * BN + tl.arange(0, BN)) % n
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * sa + offs_k[None, :] * 1)
    b_ptrs = b_ptr + (offs_k[:, None] * sb + offs_bn[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for kk in range(tl.cdiv(k, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < k - kk * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < k - kk * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        acc += tl.dot(a, b, input_precision="tf32")
        a_ptrs += BK * 1
        b_ptrs += BK * sb
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    c = acc.to(tl.float16)
    c_mask = (offs_am[:, None] < m) & (offs_bn[None, :] < n)
    tl.store(c_ptr + sa * offs_am[:, None] + offs_bn[None, :], c, mask=c_mask)


@tile.jit
def inner(
    acc,
    l_i,
    m_i,
    q,
    desc_k,
    start_m,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGE: tl.constexpr,
    offs_m: tl.constexpr,
    N_CTX: tl.constexpr,
):
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    off = lo + start_m
    for start_n in tl.range(lo, hi, BLOCK_N, warp_specialize=True):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        kt = desc_k.load([off, 0]).T
        qk = tl.dot(q, kt)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * scale)
        qk = qk * scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        off += BLOCK_N
    return acc, l_i, m_i


@tile.jit
def attn(q_ptr, k_ptr, lock, seed, sizes, out: Any, n: int, p: float, BLOCK: tl.constexpr):
    start_m = tl.program_id(0)
    if start_m >= n:
        return
    m_i = tl.zeros([BLOCK], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    dtype: tl.constexpr = q_ptr.dtype.element_ty
    q = tl.load(q_ptr + tl.arange(0, BLOCK)[None, :]).to(dtype)
    desc = tl.make_tensor_descriptor(
        k_ptr, shape=[n, sizes[0]], strides=[sizes[1], 1], block_shape=[BLOCK, BLOCK]
    )
    acc, l_i, m_i = inner(acc, l_i, m_i, q, desc, start_m, p, BLOCK, BLOCK, 3, 4, 5)
    x = acc / l_i[:, None] + m_i
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    count = tl.load(lock + 1)
    if count == 0:
        tl.atomic_xchg(lock, 1)
    else:
        x += tl.load(out, mask=m_i > 0)
    tl.debug_barrier()
    keep = tl.random.rand(seed, tl.arange(0, BLOCK)) > p
    y = tl.where(keep, x / (1 - p), 0.0)
    y = y.to(tl.float32) if n else y
    z = None
    if BLOCK > 4:
        z = y * 2
    if z is not None:
        y = z + 1
    tl.device_assert(y > 0, "positive")
    assert BLOCK > 0
    print("y", y)
    tl.static_print(y.shape, y.dtype)
    s = tl.sort(y, descending=True) + tl.topk(y, 4) + tl.histogram(y, 4)
    i64 = tl.program_id(0).to(tl.int64) * n
    even = (i64 & 1).to(tl.int1) & (s % 2 == 0)
    half = int(BLOCK / 2)
    w = tl.full((half, N), float("-inf"), tl.float32) + M + 2**BLOCK
    best = -1
    score = float("-inf")
    for j in range(n):
        v = tl.load(out + j)
        if v > score:
            score = v
            best = j
    total = 0
    for j in tl.static_range(N):
        total += tl.sum(s, axis=0) * j
    tl.store(out + best, score + total, mask=even)
    flag = True
    flag = flag and n > 3
    for t in (1, 2, 3):
        w += t
    wide = tl.zeros((BLOCK,), tl.int32)
    for q2 in range(3):
        wide = wide + q2
    a, b = tl.split(tl.join(wide, w))
    r = tl.cumsum(a, 0) + tl.flip(b) + tl.ravel(w) + tl.cat(a, b, can_reorder=True)
    u = (
        tl.umulhi(a, b)
        + tl.clamp(a, 0.0, 1.0)
        + tl.sigmoid(a)
        + tl.softmax(b)
        + tl.swizzle2d(1, 2, 3, 4, 5)[0]
    )
    k0, *_ = tl.randint4x(seed, a)
    e = exp(load(out)) + k0.to(float32, bitcast=True)
    if not (n % 4 == 0 or tl.num_programs(0) == 1):
        e = e + max(a, b) + min(1, b) + abs(e)
    tl.store(out, e + r + u, eviction_policy="evict_first")


def run(x: np.ndarray[Any, Any]) -> None:
    grid = lambda meta: (tile.cdiv(4, meta["BM"]) * tile.cdiv(4, meta["BN"]),)  # noqa: E731
    matmul[grid](x, x, x, 3, 3, 3, 4, 5, BN=3, BK=4, GROUP_M=4, ACTIVATION=leaky_relu)
    attn[(4, 1, 1)](x, x, x, 1, (1, 2), x, 4, 0.5, BLOCK=64, num_stages=3)
    attn.warmup(tl.float32, tl.float16, grid=(1,))
    with tile.sanitize():
        attn[4](x)
