"""Fused attention on descriptors, causal or not, with pruned configurations and a hook."""

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


@triton.jit
def inner(
    acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
    STAGE: tl.constexpr, offs_m: tl.constexpr, offs_n: tl.constexpr, N_CTX: tl.constexpr,
):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    offset = offset_y + lo
    for start_n in tl.range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offset, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = desc_v.load([offset, 0])
        acc = tl.dot(p.to(tl.float16), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offset += BLOCK_N
    return acc, l_i, m_i


def set_blocks(nargs):
    for name in ("desc_q", "desc_o"):
        nargs[name].block_shape = [nargs["BLOCK_M"], nargs["HEAD_DIM"]]
    for name in ("desc_k", "desc_v"):
        nargs[name].block_shape = [nargs["BLOCK_N"], nargs["HEAD_DIM"]]


configs = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_stages=2, num_warps=4, pre_hook=set_blocks)
    for m in (32, 64)
    for n in (16, 32, 64)
]


def keep(config):
    return config.kwargs["BLOCK_M"] == 32 or config.num_warps == 8


def prune_invalid_configs(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK_N"] <= 32]


@triton.autotune(
    configs=list(filter(keep, configs)),
    key=["N_CTX", "HEAD_DIM"],
    prune_configs_by={"early_config_prune": prune_invalid_configs},
)
@triton.jit
def attention_kernel(
    sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    offset_y = off_hz * N_CTX
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = desc_q.load([offset_y + start_m * BLOCK_M, 0])
    if STAGE & 1:
        acc, l_i, m_i = inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale,
            BLOCK_M, HEAD_DIM, BLOCK_N, 4 - STAGE, offs_m, offs_n, N_CTX,
        )  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, start_m, qk_scale,
            BLOCK_M, HEAD_DIM, BLOCK_N, 2, offs_m, offs_n, N_CTX,
        )  # fmt: skip
    m_i += tl.math.log2(l_i)
    tl.store(M + off_hz * N_CTX + offs_m, m_i)
    acc = acc / l_i[:, None]
    desc_o.store([offset_y + start_m * BLOCK_M, 0], acc.to(tl.float16))


def attention(q, k, v, causal, sm_scale):
    Z, H, N_CTX, HEAD_DIM = q.shape
    o = np.empty_like(q)
    M = np.empty((Z * H, N_CTX), np.float32)
    described = [
        TensorDescriptor(
            array.reshape(-1, HEAD_DIM), [Z * H * N_CTX, HEAD_DIM], [HEAD_DIM, 1], [16, HEAD_DIM]
        )
        for array in (q, k, v, o)
    ]
    grid = lambda META: (triton.cdiv(N_CTX, META["BLOCK_M"]), Z * H, 1)  # noqa: E731
    attention_kernel[grid](
        sm_scale, M, Z, H, *described, N_CTX, HEAD_DIM=HEAD_DIM, STAGE=3 if causal else 1
    )
    return o


def reference(q, k, v, causal, sm_scale):
    scores = np.einsum("zhmd,zhnd->zhmn", q, k, dtype=np.float32) * sm_scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("zhmn,zhnd->zhmd", p / p.sum(-1, keepdims=True), v.astype(np.float32))


if __name__ == "__main__":
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 128, 64)).astype(np.float16)
    for causal in (False, True):
        np.testing.assert_allclose(
            attention(q, k, v, causal, 0.5), reference(q, k, v, causal, 0.5), atol=2e-2
        )
    print("attention: equal", is_cuda())
