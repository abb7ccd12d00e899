"""PyTorch's layer and RMS normalization, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import (
    Arguments,
    Operators,
    masked,
    require,
    require_wide,
    torch_module,
)
from tile.ops.rowwise.layer_norm import layer_norm, layer_norm_backward
from tile.ops.rowwise.rms_norm import rms_norm, rms_norm_backward


class _Rows:
    """A tensor as rows of the elements that are normalized together."""

    def __init__(self, x: Any, normalized_shape: Sequence[int]) -> None:
        count = len(normalized_shape)
        require(list(x.shape[x.dim() - count :]) == [*normalized_shape], "shapes do not fit")
        self.leading, self.shape = x.shape[: x.dim() - count], x.shape
        self.length = math.prod(normalized_shape)
        require(self.length > 0, "rows have no elements")
        self._statistics = (*self.leading, *(1,) * count)

    def enter(self, x: Any) -> Any:
        return x.reshape(*self.leading, self.length)

    def leave(self, y: Any) -> Any:
        return y.view(self.shape)

    def vector(self, weight: Any, like: Any, default: float) -> Any:
        """Return a weight of rows; the default one if it is None."""
        if weight is None:
            return like.new_full((self.length,), default)
        return weight.reshape(self.length)

    def gradient_operands(self, args: Arguments) -> tuple[Any, Any, Any]:
        """Return the gradient of the result, the input, and the weight."""
        weight = self.vector(args.weight, args.input, 1.0)
        return self.enter(args.grad_out), self.enter(args.input), weight

    def statistics(self, values: Any) -> Any:
        """Return means or deviations in the shape in which PyTorch keeps them."""
        return values.view(self._statistics)

    def per_row(self, values: Any) -> Any:
        """Return what PyTorch kept as an argument of this library."""
        return values.reshape(self.leading)


def _layer_norm(args: Arguments) -> tuple[Any, Any, Any]:
    x, weight, bias = args.input, args.weight, args.bias
    require_wide(x, weight, bias)
    rows = _Rows(x, args.normalized_shape)
    vectors = rows.vector(weight, x, 1.0), rows.vector(bias, x, 0.0)
    y, mean, rstd = layer_norm(rows.enter(x), *vectors, args.eps, True)
    return rows.leave(y), rows.statistics(mean), rows.statistics(rstd)


def _layer_norm_backward(args: Arguments) -> tuple[Any, ...]:
    require_wide(args.input, args.weight, args.bias)
    rows, shape = _Rows(args.input, args.normalized_shape), args.normalized_shape
    statistics = {"mean": rows.per_row(args.mean), "rstd": rows.per_row(args.rstd)}
    dx, dweight, dbias = layer_norm_backward(*rows.gradient_operands(args), **statistics)
    dbias = dbias.to(args.input.dtype if args.bias is None else args.bias.dtype)
    return masked((rows.leave(dx), dweight.view(*shape), dbias.view(*shape)), args.output_mask)


def _rms_norm(args: Arguments) -> tuple[Any, Any]:
    x, eps = args.input, args.eps
    require_wide(x, args.weight)
    rows = _Rows(x, args.normalized_shape)
    if eps is None:
        torch = torch_module()
        kind = torch.float64 if x.dtype == torch.float64 else torch.float32
        eps = torch.finfo(kind).eps
    y, rstd = rms_norm(rows.enter(x), rows.vector(args.weight, x, 1.0), eps, True)
    return rows.leave(y), rows.statistics(rstd)


def _rms_norm_backward(args: Arguments) -> tuple[Any, ...]:
    require_wide(args.input, args.weight)
    rows = _Rows(args.input, args.normalized_shape)
    operands = rows.gradient_operands(args)
    dx, dweight = rms_norm_backward(*operands, rstd=rows.per_row(args.rstd))
    return masked((rows.leave(dx), dweight.view(*args.normalized_shape)), args.output_mask)


OPERATORS: Operators = MappingProxyType(
    {
        "aten::native_layer_norm": _layer_norm,
        "aten::native_layer_norm_backward": _layer_norm_backward,
    }
)
CUDA_OPERATORS: Operators = MappingProxyType(
    {  # on a CPU, PyTorch composes it
        "aten::_fused_rms_norm": _rms_norm,
        "aten::_fused_rms_norm_backward": _rms_norm_backward,
    }
)
