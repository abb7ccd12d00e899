"""The other operators of flash-linear-attention, against the library's own references in torch.

tile triton -m pytest -p tests.libraries.plugin --cpu-seconds 100 tests/libraries/fla_naive.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import fla.ops
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from fla.ops.abc.naive import naive_recurrent_abc
from fla.ops.attnres.naive import naive_attnres
from fla.ops.cyfa.naive import naive_recurrent_cyfa
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.generalized_delta_rule.iplr.naive import iplr_recurrence
from fla.ops.log_linear_attn.naive import naive_log_linear_attn
from fla.ops.mesa_net.naive import naive_mesa_net_exact
from fla.ops.momentum_delta_rule.naive import recurrent_momentum_delta_rule_ref
from fla.ops.nsa.naive import naive_nsa
from fla.ops.parallax.naive import naive_parallax
from fla.ops.path_attn.naive import naive_path_attn
from fla.ops.precond_gated_delta_rule.naive import naive_recurrent_precond_gated_delta_rule
from fla.ops.precond_kda.naive import naive_recurrent_precond_kda
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.wall_attn.decode import build_wall_kv_cache

from tests.libraries.fla_ops import (
    BATCH,
    HEADS,
    QK1V,
    QKV,
    SIZE,
    TOKENS,
    TOLERANCE,
    Case,
    Function,
    check,
    comba,
    decay,
    decays,
    gated_delta,
    transposed,
    unit,
    vector,
    weight,
)

SCALE = SIZE**-0.5
GROUP = 16  # query heads of a key's head, of which NSA wants so many
SLOTS = 15
LAST = 8  # tokens that decoding adds
WITH_DECAY = (*QK1V, decay, weight)
# They raise NotImplementedError: the library names others in their place.
GONE = {"fused_chunk_delta_rule", "fused_chunk_gla"}


def claiming_a_gpu(function: Function) -> Function:
    """Return a function for which tensors say that they are on a GPU, which the library checks."""

    def claimed(*operands: Any, **options: Any) -> Any:
        with mock.patch.object(torch.Tensor, "is_cuda", property(lambda tensor: True)):
            return function(*operands, **options)

    return claimed


def in_half(function: Function) -> Function:
    """Return a function of float32 that takes its operands in float16."""
    return lambda *operands: _first(function(*(x.half() for x in operands))).float()


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def _unit(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


def wall(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Return causal softmax attention whose keys decay by channel, with each token between."""
    total = g.cumsum(1)
    kept = (total[:, :, None] - total[:, None]).exp()
    scores = torch.einsum("bqhd,bkhd,bqkhd->bhqk", q, k, kept) * SCALE
    future = torch.ones(TOKENS, TOKENS, dtype=torch.bool, device=q.device).triu(1)
    return torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(future, -math.inf).softmax(-1), v)


def wall_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """Return the attention of the last tokens by a cache of keys, as decoding does."""
    total = g.cumsum(1) * math.log2(math.e)
    keys, anchors = build_wall_kv_cache(k, total, 32)
    last = slice(TOKENS - LAST, None)
    operands = (q[:, last].contiguous(), v, total[:, last].contiguous(), keys, anchors)
    return _first(fla.ops.parallel_wall_attn_decode(*operands, None, SCALE, 32))


def momentum(*operands: torch.Tensor) -> torch.Tensor:
    """Return the reference of the delta rule with momentum, whose operators normalize."""
    q, k, v, alpha, mu, beta, eta = operands
    q, k = _unit(q), _unit(k)
    return _first(recurrent_momentum_delta_rule_ref(q, k, v, alpha, mu, k, beta, eta))


def by_momentum(function: Function) -> Function:
    """Return an operator of the delta rule with momentum, of bfloat16, as a function of float32."""

    def called(*operands: torch.Tensor) -> torch.Tensor:
        q, k, v, *others = operands
        alpha, mu, beta, eta = others
        q, k, v = (x.bfloat16() for x in (q, k, v))
        gates = {"beta": beta, "eta": eta, "use_p_times_alpha": False}
        return _first(function(q, k, v, alpha, mu, **gates)).float()

    return called


def preconditioned(q: Any, k: Any, v: Any, g_atk: Any, g: Any, beta_atk: Any, beta: Any) -> Any:
    """Return the recurrent operator of the preconditioned delta rule."""
    gates = {"g": g, "beta": beta, "g_atk": g_atk, "beta_atk": beta_atk}
    center = torch.full((HEADS,), -0.2, device=q.device)
    return fla.ops.fused_recurrent_precond_gated_delta_rule(q, k, v, **gates, log_atk_scale=center)


def preconditioned_kda(q: Any, k: Any, *others: Any) -> torch.Tensor:
    """Return the reference of the preconditioned KDA, whose operator normalizes."""
    return _first(naive_recurrent_precond_kda(_unit(q), _unit(k), *others))


def _rwkv7(r: Any, w: Any, k: Any, v: Any, a: Any, b: Any) -> torch.Tensor:
    return transposed(dplr_recurrence)(r, k, v, a, b, w)


def _nsa(function: Function) -> Function:
    return lambda q, k, v, g_cmp, g_slc: function(
        q, k, v, g_cmp, g_slc, block_counts=4, block_size=16, scale=SCALE
    )


def _grouped() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, GROUP, SIZE)


def _group_weight() -> torch.Tensor:
    return torch.rand(BATCH, TOKENS, GROUP)


def _single() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, 1, SIZE)


def _wide() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, HEADS, 64)


def _levels() -> torch.Tensor:
    return F.softplus(torch.randn(BATCH, TOKENS, HEADS, math.ceil(math.log2(TOKENS)) + 1))


def _damping() -> torch.Tensor:
    return F.softplus(torch.rand(HEADS, SIZE)) + 0.25


def _row() -> torch.Tensor:
    return torch.randn(SIZE)


def _near_one() -> torch.Tensor:
    return F.logsigmoid(torch.randn(BATCH, TOKENS, HEADS) + 3)


def _readout() -> torch.Tensor:
    return torch.randn(HEADS, SLOTS, SLOTS) / math.sqrt(SLOTS)


CYFA = (
    *QKV,
    *(_near_one, weight, weight, _readout),
    *(lambda: 1 + torch.randn(SIZE) / 8, lambda: 1 + torch.randn(SIZE) / 8),
)
MOMENTUM = (vector, vector, vector, _near_one, _near_one, weight, weight)
PRECONDITIONED = (*QKV, decay, decay, weight, weight)
PRECONDITIONED_KDA = (*QKV, decays, decay, weight, weight)
DPLR = (vector, unit, vector, lambda: -unit(), unit, decays)
IPLR = (vector, unit, vector, lambda: -unit(), unit)


def _cyfa(function: Function) -> Function:
    return lambda *operands: function(*operands, q_norm_eps=1e-6, k_norm_eps=1e-6)


def _cases() -> dict[str, Case]:
    ops = fla.ops
    rwkv7 = (vector, decays, unit, vector, lambda: -unit(), unit)
    halves: Callable[..., dict[str, Any]] = lambda count: {"tolerance": count * TOLERANCE}  # noqa: E731
    return {
        "chunk_abc": Case(ops.chunk_abc, transposed(naive_recurrent_abc), (*QKV, vector)),
        "chunk_cyfa": Case(
            claiming_a_gpu(_cyfa(ops.chunk_cyfa)), _cyfa(naive_recurrent_cyfa), CYFA
        ),
        "fused_recurrent_cyfa": Case(
            claiming_a_gpu(_cyfa(ops.fused_recurrent_cyfa)), _cyfa(naive_recurrent_cyfa), CYFA
        ),
        "chunk_gdn": Case(ops.chunk_gdn, gated_delta, WITH_DECAY),
        "fused_recurrent_gdn": Case(
            lambda q, k, v, g, beta: ops.fused_recurrent_gdn(q, k, v, g, beta=beta),
            gated_delta,
            WITH_DECAY,
        ),
        "chunk_log_linear_attn": Case(
            ops.chunk_log_linear_attn, naive_log_linear_attn, (_wide, _wide, _wide, decay, _levels)
        ),
        "chunk_mesa_net": Case(
            lambda q, k, v, g, beta, damping: ops.chunk_mesa_net(q, k, v, g, beta, damping),
            lambda q, k, v, g, beta, damping: naive_mesa_net_exact(q, k, v, g, damping, beta),
            (*QK1V, decay, weight, _damping),
        ),
        "chunk_momentum_delta_rule": Case(
            by_momentum(ops.chunk_momentum_delta_rule), momentum, MOMENTUM, **halves(4)
        ),
        "fused_recurrent_momentum_delta_rule": Case(
            by_momentum(ops.fused_recurrent_momentum_delta_rule), momentum, MOMENTUM, **halves(4)
        ),
        "chunk_precond_gated_delta_rule": Case(
            lambda *x: ops.chunk_precond_gated_delta_rule(
                *x, log_atk_scale=torch.full((HEADS,), -0.2, device=x[0].device)
            ),
            naive_recurrent_precond_gated_delta_rule,
            PRECONDITIONED,
        ),
        "fused_recurrent_precond_gated_delta_rule": Case(
            preconditioned, naive_recurrent_precond_gated_delta_rule, PRECONDITIONED
        ),
        "chunk_precond_kda": Case(ops.chunk_precond_kda, preconditioned_kda, PRECONDITIONED_KDA),
        "fused_recurrent_precond_kda": Case(
            lambda *x: ops.fused_recurrent_precond_kda(
                *x, log_atk_scale=torch.full((HEADS,), -0.2, device=x[0].device)
            ),
            preconditioned_kda,
            PRECONDITIONED_KDA,
        ),
        "chunk_rwkv7": Case(ops.chunk_rwkv7, _rwkv7, rwkv7, {"scale": SCALE}),
        "fused_recurrent_rwkv7": Case(ops.fused_recurrent_rwkv7, _rwkv7, rwkv7, {"scale": SCALE}),
        "fused_attnres": Case(
            claiming_a_gpu(
                lambda query, norm, *residuals: ops.fused_attnres(query, residuals, norm)
            ),
            lambda query, norm, *residuals: naive_attnres(query, residuals, norm),
            (_row, _row, vector, vector, vector),
        ),
        "fused_recurrent_comba": Case(
            lambda q, k, v, p, g, beta: ops.fused_recurrent_comba(q, k, p, v, g, beta),
            comba,
            (vector, unit, vector, unit, decay, weight),
        ),
        "fused_recurrent_dplr_delta_rule": Case(
            ops.fused_recurrent_dplr_delta_rule, transposed(dplr_recurrence), DPLR
        ),
        "fused_recurrent_iplr_delta_rule": Case(
            ops.fused_recurrent_iplr_delta_rule, transposed(iplr_recurrence), IPLR
        ),
        "fused_recurrent_rwkv6": Case(
            ops.fused_recurrent_rwkv6,
            lambda r, k, v, w, u: transposed(lambda *x: naive_recurrent_rwkv6(*x, u, scale=SCALE))(
                r, k, v, w
            ),
            (*QKV, decays, lambda: torch.randn(HEADS, SIZE)),
        ),
        "parallel_nsa": Case(
            _nsa(ops.parallel_nsa),
            _nsa(naive_nsa),
            (_grouped, _single, _single, _group_weight, _group_weight),
        ),
        "parallel_parallax": Case(
            in_half(ops.parallel_parallax),
            naive_parallax,
            (vector, lambda: vector() / SIZE, vector, vector),
            **halves(1),
        ),
        "parallel_path_attn": Case(
            ops.parallel_path_attn,
            lambda q, k, v, w, beta, g: naive_path_attn(q, k, v, w, beta, g, SCALE),
            (*QKV, unit, weight, decay),
        ),
        "parallel_wall_attn": Case(ops.parallel_wall_attn, wall, (*QKV, decays)),
        "parallel_wall_attn_decode": Case(
            wall_decode, lambda *x: wall(*x)[:, -LAST:], (*QKV, decays)
        ),
    }


CASES = _cases()
# The library does not differentiate these.
FORWARD_ONLY = {
    "fused_recurrent_comba",
    "fused_recurrent_cyfa",
    "fused_recurrent_dplr_delta_rule",
    "fused_recurrent_gdn",
    "fused_recurrent_precond_gated_delta_rule",
    "fused_recurrent_precond_kda",
    "fused_recurrent_rwkv7",
    "parallel_wall_attn_decode",
}


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(name: str) -> None:
    check(CASES[name], name not in FORWARD_ONLY)


@pytest.mark.parametrize("name", sorted(GONE))
def test_operators_that_are_gone(name: str) -> None:
    with pytest.raises(NotImplementedError, match="deprecated"):
        getattr(fla.ops, name)()
