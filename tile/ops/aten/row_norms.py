"""PyTorch's layer and RMS normalization, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require, require_wide, torch_module
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

    def statistics(self, values: Any) -> Any:
        """Return means or deviations in the shape in which PyTorch keeps them."""
        return values.view(self._statistics)

    def per_row(self, values: Any) -> Any:
        """Return what PyTorch kept as an argument of this library."""
        return values.reshape(self.leading)


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    require_wide(input, weight, bias)
    rows = _Rows(input, normalized_shape)
    vectors = rows.vector(weight, input, 1.0), rows.vector(bias, input, 0.0)
    y, mean, rstd = layer_norm(rows.enter(input), *vectors, eps, True)
    return rows.leave(y), rows.statistics(mean), rows.statistics(rstd)


def native_layer_norm_backward(
    grad_out: Any,
    input: Any,
    normalized_shape: Sequence[int],
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    require_wide(input, weight, bias)
    rows = _Rows(input, normalized_shape)
    dx, dweight, dbias = layer_norm_backward(
        *(rows.enter(grad_out), rows.enter(input), rows.vector(weight, input, 1.0)),
        mean=rows.per_row(mean),
        rstd=rows.per_row(rstd),
    )
    return (
        rows.leave(dx) if output_mask[0] else None,
        dweight.view(*normalized_shape) if output_mask[1] else None,
        dbias.to(input.dtype if bias is None else bias.dtype).view(*normalized_shape)
        if output_mask[2]
        else None,
    )


def fused_rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, eps: float | None
) -> tuple[Any, Any]:
    require_wide(input, weight)
    rows = _Rows(input, normalized_shape)
    if eps is None:
        torch = torch_module()
        kind = torch.float64 if input.dtype == torch.float64 else torch.float32
        eps = torch.finfo(kind).eps
    y, rstd = rms_norm(rows.enter(input), rows.vector(weight, input, 1.0), eps, True)
    return rows.leave(y), rows.statistics(rstd)


def fused_rms_norm_backward(
    grad_out: Any,
    input: Any,
    normalized_shape: Sequence[int],
    rstd: Any,
    weight: Any,
    output_mask: Sequence[bool],
) -> tuple[Any, Any]:
    require_wide(input, weight)
    rows = _Rows(input, normalized_shape)
    dx, dweight = rms_norm_backward(
        *(rows.enter(grad_out), rows.enter(input), rows.vector(weight, input, 1.0)),
        rstd=rows.per_row(rstd),
    )
    return (
        rows.leave(dx) if output_mask[0] else None,
        dweight.view(*normalized_shape) if output_mask[1] else None,
    )


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::native_layer_norm": native_layer_norm,
        "aten::native_layer_norm_backward": native_layer_norm_backward,
    }
)
CUDA_OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {  # on a CPU, PyTorch composes it
        "aten::_fused_rms_norm": fused_rms_norm,
        "aten::_fused_rms_norm_backward": fused_rms_norm_backward,
    }
)
