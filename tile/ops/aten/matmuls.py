"""PyTorch's matmuls and, on a CPU, its attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, matmul_precision, require
from tile.ops.linear.matmul import matmul
from tile.ops.sequence.attention import attention
from tile.ops.sequence.attention_backward import attention_backward


def mm(self: Any, mat2: Any) -> Any:
    return matmul(self, mat2, precision=matmul_precision(self))


def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    require(beta == alpha == 1, "`beta` or `alpha` is not 1")
    require(self.dim() == 1, "`self` is not a vector")
    require(self.shape[0] == mat2.shape[1], "`self` has not an element for each column")
    return matmul(mat1, mat2, self, precision=matmul_precision(mat1))


def _require_attention(q: Any, k: Any, dropout_p: float, is_causal: bool) -> None:
    require(dropout_p == 0, "`dropout_p` is not 0")
    same = q.shape[2] == k.shape[2]
    require(same or not is_causal, "attention is causal, and queries are not as many as keys")


def _attention(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> tuple[Any, Any]:
    _require_attention(query, key, dropout_p, is_causal)
    result, logs = attention(*(query, key, value, is_causal, scale, True), bias=_bias(attn_mask))
    return result, logs * math.log(2)


def _bias(mask: Any) -> Any:
    """Return a mask as a bias of four axes, or None."""
    if mask is None:
        return None
    require(mask.is_floating_point(), "`attn_mask` is not of a float type")
    # What PyTorch returns for a query that sees no key depends on the device.
    require(not mask.isneginf().all(-1).any(), "`attn_mask` hides all keys from a query")
    return mask[(None,) * (4 - mask.dim())]


def _attention_backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> tuple[Any, Any, Any]:
    _require_attention(query, key, dropout_p, is_causal)
    dout, q, k, v, result = (x.contiguous() for x in (grad_out, query, key, value, out))
    logs = (logsumexp / math.log(2)).contiguous()
    bias = _bias(attn_mask)
    gradients: tuple[Any, Any, Any] = attention_backward(
        dout, q, k, v, result, logs, is_causal, scale, bias=bias
    )
    return gradients


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {"aten::mm": mm, "aten::bmm": mm, "aten::addmm": addmm}
)
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
CPU_OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {FLASH: _attention, f"{FLASH}_backward": _attention_backward}
)
