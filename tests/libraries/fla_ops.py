"""Operators of flash-linear-attention against recurrences and formulas in torch, forward and backward.

    tile triton -m pytest -p tests.libraries.plugin --cpu-seconds 100 tests/libraries/fla_ops.py

Most of its operators are one recurrence over a state of K x V per head, with decays per head or per
key, and with or without the delta rule; `recurrence` is that, a token at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fla.modules
import fla.ops
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from fla.modules.fused_cross_entropy.ops import cross_entropy_loss
from fla.ops.based.naive import naive_parallel_based
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.generalized_delta_rule.iplr.naive import iplr_recurrence
from fla.ops.gsa.naive import naive_recurrent_gsa
from fla.ops.hgrn import chunk_hgrn
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum, mean_pooling

# Two chunks of 64 tokens, the second one not full.
BATCH, TOKENS, HEADS, SIZE = 1, 72, 2, 32
TOLERANCE = 5e-3  # of the root of the mean square, as in the library's own tests
Function = Callable[..., Any]


def recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    delta: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Return the outputs of a linear attention, (batch, tokens, heads, size) as the operands.

    decay: the logarithm of what the state keeps, per head or per head and key.
    beta: the weight of each token; delta: what the state has for the key is subtracted first.
    """
    state = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(q.shape[1]):
        if decay is not None:
            kept = decay[:, t].exp()
            state = state * (kept[..., None, None] if kept.ndim == 2 else kept[..., None])
        value = v[:, t]
        if delta:
            value = value - torch.einsum("bhkv,bhk->bhv", state, k[:, t])
        if beta is not None:
            value = value * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * value[:, :, None]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1) * (q.shape[-1] ** -0.5 if scale is None else scale)


def comba(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    p: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
) -> torch.Tensor:
    """Return a gated delta rule that subtracts what the state, before it decays, has for `p`."""
    state = q.new_zeros(q.shape[0], q.shape[2], SIZE, SIZE)
    outputs = []
    for t in range(q.shape[1]):
        value = v[:, t] - torch.einsum("bhkv,bhk->bhv", state, p[:, t])
        value = value * beta[:, t, :, None]
        state = state * g[:, t].exp()[..., None, None] + k[:, t, :, :, None] * value[:, :, None]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1) / math.sqrt(SIZE)


def retention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return a linear attention whose decays are fixed, by head."""
    return recurrence(q, k, v, _fixed(1 - 2.0 ** (-5.0 - torch.arange(HEADS)), q))


def lightning(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return a linear attention whose decays are fixed, by head and layer: here layer 1 of 4."""
    slopes = 8 / HEADS * (1 - 1 / 4) * torch.arange(HEADS)
    return recurrence(q, k, v, -slopes.expand(q.shape[:3]))


def _fixed(kept: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return kept.log().expand(like.shape[:3])


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return causal softmax attention."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def forgetting(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Return causal softmax attention whose scores lose the sum of the decays between."""
    total = g.cumsum(1).transpose(1, 2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = scores + total[..., :, None] - total[..., None, :]
    future = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(future, -math.inf).softmax(-1), v)


def stickbreaking(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return attention whose weights break off parts of what nearer tokens have left."""
    logits = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(0)
    taken = F.logsigmoid(logits).masked_fill(future, -math.inf)
    left = F.logsigmoid(-logits).masked_fill(future, 0.0)
    between = left.flip(-1).cumsum(-1).flip(-1) - left
    return torch.einsum("bhqk,bkhd->bqhd", (taken + between).exp(), v)


def gated_state(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Return h[t] = exp(g[t]) h[t - 1] + x[t]."""
    state, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, 1)


def transposed(function: Function) -> Function:
    """Return a function of (batch, heads, tokens, size) as one of (batch, tokens, heads, size)."""

    def of_tokens_first(*operands: torch.Tensor) -> torch.Tensor:
        result = function(*(x.transpose(1, 2) for x in operands))
        return _output(result).transpose(1, 2)

    return of_tokens_first


def causal_convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return a convolution of each channel along the tokens, and its SiLU."""
    width = weight.shape[-1]
    padded = F.pad(x.transpose(1, 2), (width - 1, 0))
    return F.silu(F.conv1d(padded, weight[:, None], groups=x.shape[-1])).transpose(1, 2)


def local_cumsum(g: torch.Tensor) -> torch.Tensor:
    """Return sums along the tokens that begin anew with each 64."""
    return torch.cat([part.cumsum(1) for part in g.split(64, 1)], 1)


def _output(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def heads(*shape: int) -> torch.Tensor:
    """Return random numbers for each token and head."""
    return torch.randn(BATCH, TOKENS, HEADS, *shape)


def vector() -> torch.Tensor:
    return heads(SIZE)


def unit() -> torch.Tensor:
    return F.normalize(heads(SIZE), dim=-1)


def decay() -> torch.Tensor:
    return F.logsigmoid(heads())


def decays() -> torch.Tensor:
    return F.logsigmoid(heads(SIZE)) / 4


def weight() -> torch.Tensor:
    return heads().sigmoid()


def channels() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, 64)


def channel_decays() -> torch.Tensor:
    return F.logsigmoid(channels())


QKV = (vector, vector, vector)
QK1V = (vector, unit, vector)


@dataclass(frozen=True)
class Case:
    """An operator, its reference, and functions that make the operands."""

    op: Function
    reference: Function
    operands: tuple[Callable[[], torch.Tensor], ...]
    options: dict[str, Any] = field(default_factory=dict)
    tolerance: float = TOLERANCE


def _delta(q: Any, k: Any, v: Any, beta: Any) -> torch.Tensor:
    return recurrence(q, k, v, None, beta, delta=True)


def gated_delta(q: Any, k: Any, v: Any, g: Any, beta: Any) -> torch.Tensor:
    """Return a delta rule with decays, per head or per key."""
    return recurrence(q, k, v, g, beta, delta=True)


def _cases() -> dict[str, Case]:
    ops = fla.ops
    unnormalized = {"normalize": False}
    layer = {"layer_idx": 1, "num_layers": 4}
    families: list[tuple[str, Function, tuple[Any, ...], dict[str, Any]]] = [
        ("chunk fused_chunk fused_recurrent linear_attn", recurrence, QKV, unnormalized),
        ("chunk fused_chunk fused_recurrent parallel retention", retention, QKV, {}),
        ("chunk fused_recurrent lightning_attn", lightning, QKV, layer),
        (
            "fused_chunk parallel based",
            transposed(naive_parallel_based),
            (lambda: heads(16), lambda: heads(16), vector),
            {},
        ),
        ("parallel attn", attention, QKV, {}),
        ("parallel forgetting_attn", forgetting, (*QKV, decay), {}),
        ("parallel stickbreaking_attn", stickbreaking, QKV, {}),
    ]
    gated: list[tuple[str, Function, tuple[Any, ...], dict[str, Any]]] = [
        ("chunk fused_chunk fused_recurrent parallel simple_gla", recurrence, (*QKV, decay), {}),
        ("chunk fused_recurrent gla", recurrence, (*QKV, decays), {}),
        ("fused_recurrent delta_rule", _delta, (*QK1V, weight), {}),
        ("chunk gated_delta_rule", gated_delta, (*QK1V, decay, weight), {}),
        ("chunk fused_recurrent kda", gated_delta, (*QK1V, decays, weight), {}),
        ("chunk fused_recurrent gsa", naive_recurrent_gsa, (*QKV, vector, decays), {}),
    ]
    table = {
        f"{kind}_{names.split()[-1]}": Case(getattr(ops, f"{kind}_{names.split()[-1]}"), *rest)
        for names, *rest in (*families, *gated)
        for kind in names.split()[:-1]
    }
    return {
        **table,
        "fused_recurrent_gated_delta_rule": Case(
            lambda q, k, v, g, beta: ops.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta),
            gated_delta,
            (*QK1V, decay, weight),
        ),
        # It takes only 16-bit floats.
        "chunk_delta_rule": Case(
            lambda *x: ops.chunk_delta_rule(*(one.bfloat16() for one in x))[0].float(),
            _delta,
            (*QK1V, weight),
            tolerance=4 * TOLERANCE,
        ),
        "fused_recurrent_hgrn": Case(
            ops.fused_recurrent_hgrn, gated_state, (channels, channel_decays)
        ),
        "chunk_hgrn": Case(chunk_hgrn, gated_state, (channels, channel_decays)),
        "chunk_comba": Case(
            lambda q, k, v, p, g, beta: ops.chunk_comba(q, k, v, p, g, beta),
            comba,
            (vector, unit, vector, unit, decay, weight),
        ),
        "chunk_dplr_delta_rule": Case(
            ops.chunk_dplr_delta_rule,
            transposed(dplr_recurrence),
            (vector, unit, vector, lambda: -unit(), unit, decays),
        ),
        "chunk_iplr_delta_rule": Case(
            ops.chunk_iplr_delta_rule,
            transposed(iplr_recurrence),
            (vector, unit, vector, lambda: -unit(), unit),
        ),
        "chunk_rwkv6": Case(
            ops.chunk_rwkv6,
            lambda r, k, v, w, u: transposed(
                lambda *x: naive_recurrent_rwkv6(*x, u, scale=SIZE**-0.5)
            )(r, k, v, w),
            (*QKV, decays, lambda: torch.randn(HEADS, SIZE)),
        ),
        "causal_conv1d": Case(
            fla.modules.causal_conv1d.causal_conv1d,
            causal_convolution,
            (channels, lambda: torch.randn(64, 4)),
            {"activation": "silu"},
        ),
        "rms_norm": Case(
            lambda x, w: fla.modules.layernorm.rms_norm(x, w, None),
            lambda x, w: F.rms_norm(x, (64,), w, 1e-5),
            (channels, lambda: torch.randn(64)),
        ),
        "layer_norm": Case(
            fla.modules.layernorm.layer_norm,
            lambda x, w, b: F.layer_norm(x, (64,), w, b),
            (channels, lambda: torch.randn(64), lambda: torch.randn(64)),
        ),
        "l2norm": Case(fla.modules.l2norm.l2norm, lambda x: F.normalize(x, dim=-1), (channels,)),
        "cross_entropy": Case(
            lambda x: cross_entropy_loss(x[0], torch.arange(TOKENS) % 64)[0].mean(),
            lambda x: F.cross_entropy(x[0], torch.arange(TOKENS) % 64),
            (channels,),
        ),
        "chunk_global_cumsum": Case(chunk_global_cumsum, lambda g: g.cumsum(1), (decay,)),
        "chunk_local_cumsum": Case(lambda g: chunk_local_cumsum(g, 64), local_cumsum, (decay,)),
        "mean_pooling": Case(
            lambda x: mean_pooling(x, 64),
            lambda x: torch.stack([part.mean(1) for part in x.split(64, 1)], 1),
            (vector,),
        ),
    }


CASES = _cases()
# The library does not differentiate these.
FORWARD_ONLY = {
    "chunk_global_cumsum",
    "chunk_iplr_delta_rule",
    "chunk_local_cumsum",
    "fused_recurrent_gated_delta_rule",
    "fused_recurrent_kda",
}


def assert_near(actual: torch.Tensor, expected: torch.Tensor, tolerance: float, of: str) -> None:
    """Fail if tensors differ by more than a tolerance, relative to the root mean square."""
    error = (actual - expected).square().mean().sqrt().item()
    size = expected.square().mean().sqrt().item()
    assert error <= tolerance * size + 1e-6, f"{of}: off by {error:.3g} of {size:.3g}"


def check(case: Case, differentiable: bool) -> None:
    """Run an operator and its reference on equal operands; fail if results or gradients differ."""
    torch.manual_seed(0)
    operands = [make().requires_grad_(differentiable) for make in case.operands]
    copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in operands]
    actual = _output(case.op(*operands, **case.options))
    expected = _output(case.reference(*copies))
    assert_near(actual, expected, case.tolerance, "output")
    if not differentiable:
        return
    upstream = torch.randn_like(expected)
    expected.backward(upstream)
    actual.backward(upstream)
    for index, (x, y) in enumerate(zip(operands, copies, strict=True)):
        assert x.grad is not None and y.grad is not None
        assert_near(x.grad, y.grad, case.tolerance, f"gradient of operand {index}")


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(name: str) -> None:
    check(CASES[name], name not in FORWARD_ONLY)
