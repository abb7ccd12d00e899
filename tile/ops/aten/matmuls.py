"""PyTorch's matmuls and, on a CPU, its attention."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Operators, matmul_precision, require
from tile.ops.linear.matmul import matmul
from tile.ops.sequence.attention import attention
from tile.ops.sequence.attention_backward import attention_backward


def _mm(args: Arguments) -> Any:
    return matmul(args.self, args.mat2, precision=matmul_precision(args.self))


def _addmm(args: Arguments) -> Any:
    bias, a, b = args.self, args.mat1, args.mat2
    require(args.beta == args.alpha == 1, "`beta` or `alpha` is not 1")
    require(bias.dim() == 1, "`self` is not a vector")
    require(bias.shape[0] == b.shape[1], "`self` has not an element for each column")
    return matmul(a, b, bias, precision=matmul_precision(a))


def _bias(args: Arguments) -> Any:
    """Return the mask as a bias of four axes, or None; leave other attention to PyTorch."""
    require(args.dropout_p == 0, "`dropout_p` is not 0")
    same = args.query.shape[2] == args.key.shape[2]
    require(same or not args.is_causal, "attention is causal, and queries are not as many as keys")
    mask = args.attn_mask
    if mask is None:
        return None
    require(mask.is_floating_point(), "`attn_mask` is not of a float type")
    # What PyTorch returns for a query that sees no key depends on the device.
    require(not mask.isneginf().all(-1).any(), "`attn_mask` hides all keys from a query")
    return mask[(None,) * (4 - mask.dim())]


def _attention(args: Arguments) -> tuple[Any, Any]:
    bias, inputs = _bias(args), (args.query, args.key, args.value)
    result, logs = attention(*inputs, args.is_causal, args.scale, True, bias=bias)
    return result, logs * math.log(2)


def _attention_backward(args: Arguments) -> tuple[Any, Any, Any]:
    bias, logs = _bias(args), args.logsumexp / math.log(2)
    tensors = (args.grad_out, args.query, args.key, args.value, args.out, logs)
    dout, q, k, v, result, logs = (x.contiguous() for x in tensors)
    gradients: tuple[Any, Any, Any] = attention_backward(
        dout, q, k, v, result, logs, args.is_causal, args.scale, bias=bias
    )
    return gradients


OPERATORS: Operators = MappingProxyType({"aten::mm": _mm, "aten::bmm": _mm, "aten::addmm": _addmm})
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
CPU_OPERATORS: Operators = MappingProxyType(
    {FLASH: _attention, f"{FLASH}_backward": _attention_backward}
)
