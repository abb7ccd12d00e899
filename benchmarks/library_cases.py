"""Operators of liger-kernel, flash-linear-attention and FlagGems for `libraries.py`.

Each case makes its operands, one call of the library's operator as its users write it, and a
reference in PyTorch on the operands in float32. Libraries are imported when a case is made.

Most operands are larger than the L2 cache. Rows are bf16 unless the case says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

Function = Callable[..., Any]
ROUNDING = 6e-3  # relative error of a bf16 result; of fp32 ones far less
CHAINED = 2e-2  # of a result that several kernels round to bf16 one after the other


@dataclass(frozen=True)
class Problem:
    """A call of an operator, and a reference whose results have the same structure.

    tolerance: of the error's norm, relative to that of the result.
    """

    call: Callable[[], Any]
    reference: Callable[[], Any]
    tolerance: float = ROUNDING


@dataclass(frozen=True)
class Data:
    """Random operands on a device; each number of rows is divided by `divisor`, at most to 16."""

    device: str = "cuda"
    divisor: int = 1

    def rows(self, count: int) -> int:
        """Return a number of rows or tokens."""
        return max(count // self.divisor, 16)

    def normal(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Return normally distributed numbers."""
        return torch.randn(shape, device=self.device, dtype=dtype)


@dataclass(frozen=True)
class Case:
    """A case's name, its operands in words, and the function that makes it."""

    library: str
    name: str
    operands: str
    make: Callable[[Data], Problem]

    @property
    def key(self) -> str:
        """The name with its library's."""
        return f"{self.library}.{self.name}"


def forward(
    function: Function,
    reference: Function,
    operands: Sequence[torch.Tensor],
    tolerance: float = ROUNDING,
) -> Problem:
    """Return the problem of an operator without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return function(*operands)

    return Problem(call, lambda: reference(*map(_as_float32, operands)), tolerance)


def training(
    function: Function,
    reference: Function,
    operands: Sequence[torch.Tensor],
    tolerance: float = ROUNDING,
) -> Problem:
    """Return the problem of an operator and its gradients, which are results too."""
    leaves = [x.requires_grad_() for x in operands]
    with torch.no_grad():
        upstream = torch.randn_like(reference(*leaves))

    def gradients(run: Function, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        out = run(*inputs)
        return [out, *torch.autograd.grad(out, inputs, upstream.to(out.dtype))]

    def expected() -> list[torch.Tensor]:
        return gradients(reference, [_as_float32(x.detach()).requires_grad_() for x in leaves])

    return Problem(lambda: gradients(function, leaves), expected, tolerance)


def _as_float32(x: torch.Tensor) -> torch.Tensor:
    """Return a copy in float32, since some operators write their operands; integers as they are."""
    return x.to(torch.float32, copy=True) if x.is_floating_point() else x


# ---- liger-kernel


def liger_rms_norm(data: Data) -> Problem:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as Op

    x, w = data.normal(data.rows(16384), 4096), data.normal(4096)
    return forward(
        lambda x, w: Op.apply(x, w, 1e-6, 0.0, "llama", False),
        lambda x, w: F.rms_norm(x, (4096,), w, 1e-6),
        (x, w),
    )


def liger_rms_norm_gradients(data: Data) -> Problem:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction as Op

    x, w = data.normal(data.rows(8192), 4096), data.normal(4096)
    return training(
        lambda x, w: Op.apply(x, w, 1e-6, 0.0, "llama", False),
        lambda x, w: F.rms_norm(x, (4096,), w, 1e-6),
        (x, w),
        CHAINED,
    )


def liger_layer_norm_gradients(data: Data) -> Problem:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction as Op

    x, w, b = data.normal(data.rows(8192), 4096), data.normal(4096), data.normal(4096)
    return training(
        lambda *x: Op.apply(*x, 1e-6),
        lambda x, w, b: F.layer_norm(x, (4096,), w, b, 1e-6),
        (x, w, b),
        CHAINED,
    )


def liger_swiglu(data: Data) -> Problem:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction as Op

    a, b = (data.normal(data.rows(8192), 14336) for _ in "ab")
    return forward(Op.apply, lambda a, b: F.silu(a) * b, (a, b))


def liger_geglu(data: Data) -> Problem:
    from liger_kernel.ops.geglu import LigerGELUMulFunction as Op

    a, b = (data.normal(data.rows(8192), 14336) for _ in "ab")
    return forward(Op.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, (a, b))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((-high, low), -1) * sin[:, None]


def liger_rope(data: Data) -> Problem:
    from liger_kernel.ops.rope import LigerRopeFunction as Op

    tokens = data.rows(8192)
    q, k = data.normal(2, 32, tokens, 128), data.normal(2, 8, tokens, 128)
    angles = torch.rand(1, tokens, 64, device=data.device).repeat(1, 1, 2) * math.tau
    return forward(
        Op.apply,
        lambda q, k, cos, sin: (_rotated(q, cos, sin), _rotated(k, cos, sin)),
        (q, k, angles.cos().bfloat16(), angles.sin().bfloat16()),
    )


def liger_cross_entropy(data: Data) -> Problem:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction as Op

    logits = data.normal(data.rows(8192), 32000).requires_grad_()
    target = torch.randint(32000, logits.shape[:1], device=data.device)
    copy = _as_float32(logits.detach()).requires_grad_()

    def reference() -> list[torch.Tensor]:
        loss = F.cross_entropy(copy, target)
        return [loss, *torch.autograd.grad(loss, copy)]

    # The kernel writes the gradient over the logits.
    return Problem(lambda: [Op.apply(logits, target, None)[0], logits], reference)


def liger_softmax(data: Data) -> Problem:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction as Op

    return forward(Op.apply, lambda x: x.softmax(-1), (data.normal(data.rows(16384), 8192),))


def liger_kl_div(data: Data) -> Problem:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction as Op

    log_p, log_q = (
        data.normal(data.rows(4096), 32000, dtype=torch.float32).log_softmax(-1) for _ in "pq"
    )
    return forward(
        lambda p, q: Op.apply(p, q, "batchmean", True),
        lambda p, q: F.kl_div(p, q, reduction="batchmean", log_target=True),
        (log_p, log_q),
        1e-4,
    )


# ---- flash-linear-attention


@dataclass(frozen=True)
class Heads:
    """Operands of attention, (batch, tokens, heads, size)."""

    data: Data
    batch: int
    tokens: int
    heads: int
    size: int

    def vector(self) -> torch.Tensor:
        """Return normally distributed vectors."""
        return self.data.normal(self.batch, self.data.rows(self.tokens), self.heads, self.size)

    def unit(self) -> torch.Tensor:
        """Return vectors of length 1."""
        return F.normalize(self.vector().float(), dim=-1).bfloat16()

    def decay(self) -> torch.Tensor:
        """Return logarithms of decays, near to those of trained models, in float32."""
        return F.logsigmoid(self.vector()[..., 0].float() + 3)

    def decays(self) -> torch.Tensor:
        """Return logarithms of decays for each element of the keys."""
        return (F.logsigmoid(self.vector().float()) / 16).bfloat16()

    def weight(self) -> torch.Tensor:
        """Return numbers between 0 and 1, in bf16."""
        return self.vector()[..., 0].sigmoid()


def recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the outputs of a linear attention, a token at a time; `beta` asks for the delta rule.

    decay: the logarithm of what the state keeps, per head or per head and key.
    """
    state = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(q.shape[1]):
        if decay is not None:
            kept = decay[:, t].exp()
            state = state * (kept[..., None, None] if kept.ndim == 2 else kept[..., None])
        value = v[:, t]
        if beta is not None:
            value = (value - (state * k[:, t, :, :, None]).sum(-2)) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * value[:, :, None]
        outputs.append((state * q[:, t, :, :, None]).sum(-2))
    return torch.stack(outputs, 1) * q.shape[-1] ** -0.5


def retention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return a linear attention whose decays are fixed, by head."""
    heads = torch.arange(q.shape[2], device=q.device)
    return recurrence(q, k, v, (1 - 2.0 ** (-5.0 - heads)).log().expand(q.shape[:3]))


def fla_chunk_retention(data: Data) -> Problem:
    from fla.ops import chunk_retention

    x = Heads(data, 2, 2048, 16, 128)
    return forward(
        lambda *x: chunk_retention(*x)[0], retention, [x.vector() for _ in "qkv"], CHAINED
    )


def fla_chunk_simple_gla(data: Data) -> Problem:
    from fla.ops import chunk_simple_gla

    x = Heads(data, 2, 2048, 16, 128)
    operands = (*(x.vector() for _ in "qkv"), x.decay())
    return forward(lambda *x: chunk_simple_gla(*x)[0], recurrence, operands, CHAINED)


def fla_chunk_gla(data: Data) -> Problem:
    from fla.ops import chunk_gla

    x = Heads(data, 2, 2048, 16, 128)
    operands = (*(x.vector() for _ in "qkv"), x.decays())
    return forward(lambda *x: chunk_gla(*x)[0], recurrence, operands, CHAINED)


def fla_chunk_gated_delta_rule(data: Data) -> Problem:
    from fla.ops import chunk_gated_delta_rule

    x = Heads(data, 2, 2048, 16, 128)
    operands = (x.vector(), x.unit(), x.vector(), x.decay(), x.weight())
    return forward(lambda *x: chunk_gated_delta_rule(*x)[0], recurrence, operands, CHAINED)


def fla_fused_recurrent_gla(data: Data) -> Problem:
    from fla.ops import fused_recurrent_gla

    x = Heads(data, 16, 512, 16, 64)
    operands = (*(x.vector() for _ in "qkv"), x.decays())
    return forward(lambda *x: fused_recurrent_gla(*x)[0], recurrence, operands, CHAINED)


def fla_parallel_attn(data: Data) -> Problem:
    from fla.ops import parallel_attn

    x = Heads(data, 2, 4096, 16, 128)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    return forward(parallel_attn, attention, [x.vector() for _ in "qkv"], CHAINED)


def fla_causal_conv1d(data: Data) -> Problem:
    from fla.modules.causal_conv1d import causal_conv1d

    x, weight = data.normal(4, data.rows(4096), 4096), data.normal(4096, 4)

    def convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        padded = F.pad(x.transpose(1, 2), (3, 0))
        return F.silu(F.conv1d(padded, weight[:, None], groups=4096)).transpose(1, 2)

    return forward(lambda x, w: causal_conv1d(x, w, activation="silu")[0], convolution, (x, weight))


def fla_l2norm(data: Data) -> Problem:
    from fla.modules.l2norm import l2norm

    return forward(
        l2norm, lambda x: F.normalize(x, dim=-1, eps=1e-6), (data.normal(data.rows(524288), 128),)
    )


# ---- FlagGems


def gems(name: str) -> Function:
    """Return an operator of FlagGems, the one for this GPU if it has its own."""
    import flag_gems

    function: Function = getattr(flag_gems, name)
    return function


def gems_mm(data: Data) -> Problem:
    size = data.rows(4096)
    operands = [data.normal(size, size) for _ in "ab"]
    return forward(gems("mm"), torch.mm, operands)


def gems_bmm(data: Data) -> Problem:
    size = data.rows(1024)
    operands = [data.normal(16, size, size) for _ in "ab"]
    return forward(gems("bmm"), torch.bmm, operands)


def gems_softmax(data: Data) -> Problem:
    return forward(
        lambda x: gems("softmax")(x, -1),
        lambda x: x.softmax(-1),
        (data.normal(data.rows(16384), 4096),),
    )


def gems_layer_norm(data: Data) -> Problem:
    x, w, b = data.normal(data.rows(16384), 4096), data.normal(4096), data.normal(4096)
    return forward(
        lambda x, w, b: gems("layer_norm")(x, (4096,), w, b, 1e-5)[0],
        lambda x, w, b: F.layer_norm(x, (4096,), w, b, 1e-5),
        (x, w, b),
    )


def gems_gelu(data: Data) -> Problem:
    return forward(gems("gelu"), F.gelu, (data.normal(data.rows(16384), 8192),))


def gems_add(data: Data) -> Problem:
    return forward(gems("add"), torch.add, [data.normal(data.rows(16384), 8192) for _ in "ab"])


def gems_sum(data: Data) -> Problem:
    return forward(
        lambda x: gems("sum_dim")(x, [1]),
        lambda x: x.sum(1),
        (data.normal(data.rows(16384), 8192),),
    )


def gems_argmax(data: Data) -> Problem:
    return forward(
        lambda x: gems("argmax")(x, 1),
        lambda x: x.argmax(1),
        (data.normal(data.rows(8192), 8192, dtype=torch.float32),),
        0.0,
    )


def gems_cumsum(data: Data) -> Problem:
    x = data.normal(data.rows(8192), 4096, dtype=torch.float32)
    return forward(
        lambda x: gems("cumsum")(x, 1), lambda x: x.double().cumsum(1).float(), (x,), 1e-4
    )


def gems_topk(data: Data) -> Problem:
    x = data.normal(data.rows(4096), 8192, dtype=torch.float32)
    return forward(lambda x: gems("topk")(x, 16)[0], lambda x: x.topk(16)[0], (x,), 0.0)


def gems_index_select(data: Data) -> Problem:
    x = data.normal(data.rows(65536), 1024)
    index = torch.randint(x.shape[0], (data.rows(65536),), device=data.device)
    return forward(
        lambda x: gems("index_select")(x, 0, index), lambda x: x.index_select(0, index), (x,), 0.0
    )


CASES: tuple[Case, ...] = (
    Case("liger", "rms_norm", "16384 x 4096", liger_rms_norm),
    Case("liger", "swiglu", "8192 x 14336", liger_swiglu),
    Case("liger", "cross_entropy and gradient", "8192 x 32000", liger_cross_entropy),
    Case("liger", "rope", "2 x 8192, 32 and 8 heads of 128", liger_rope),
    Case("liger", "softmax", "16384 x 8192", liger_softmax),
    Case("liger", "rms_norm and gradients", "8192 x 4096", liger_rms_norm_gradients),
    Case("liger", "layer_norm and gradients", "8192 x 4096", liger_layer_norm_gradients),
    Case("liger", "geglu", "8192 x 14336", liger_geglu),
    Case("liger", "kl_div", "4096 x 32000 fp32", liger_kl_div),
    Case("flag_gems", "softmax", "16384 x 4096", gems_softmax),
    Case("flag_gems", "layer_norm", "16384 x 4096", gems_layer_norm),
    Case("flag_gems", "add", "16384 x 8192", gems_add),
    Case("flag_gems", "gelu", "16384 x 8192", gems_gelu),
    Case("flag_gems", "sum", "16384 x 8192", gems_sum),
    Case("flag_gems", "argmax", "8192 x 8192 fp32", gems_argmax),
    Case("flag_gems", "cumsum", "8192 x 4096 fp32", gems_cumsum),
    Case("flag_gems", "index_select", "65536 x 1024", gems_index_select),
    Case("flag_gems", "mm", "4096 x 4096 x 4096", gems_mm),
    Case("flag_gems", "bmm", "16 of 1024 x 1024 x 1024", gems_bmm),
    Case("flag_gems", "topk", "16 of 8192, 4096 times, fp32", gems_topk),
    Case("fla", "l2norm", "524288 x 128", fla_l2norm),
    Case("fla", "causal_conv1d", "4 x 4096 x 4096", fla_causal_conv1d),
    Case("fla", "parallel_attn", "2 x 4096, 16 heads of 128", fla_parallel_attn),
    Case("fla", "fused_recurrent_gla", "16 x 512, 16 heads of 64", fla_fused_recurrent_gla),
    Case("fla", "chunk_retention", "2 x 2048, 16 heads of 128", fla_chunk_retention),
    Case("fla", "chunk_simple_gla", "2 x 2048, 16 heads of 128", fla_chunk_simple_gla),
    Case("fla", "chunk_gated_delta_rule", "2 x 2048, 16 heads", fla_chunk_gated_delta_rule),
    Case("fla", "chunk_gla", "2 x 2048, 16 heads of 128", fla_chunk_gla),
)


def by_key(cases: Sequence[Case] = CASES) -> Mapping[str, Case]:
    """Return the cases by their keys."""
    return {case.key: case for case in cases}
