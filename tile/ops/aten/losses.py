"""PyTorch's losses, forward and backward: means and sums of all elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require, torch_module
from tile.ops.pointwise.losses import (
    huber_loss,
    huber_loss_backward,
    mse_loss,
    mse_loss_backward,
)
from tile.ops.pointwise.probability_losses import (
    bce_loss,
    bce_loss_backward,
    binary_cross_entropy,
)
from tile.ops.rowwise.nll_loss import nll_loss
from tile.ops.rowwise.nll_loss_backward import nll_loss_backward

NONE, MEAN, SUM = 0, 1, 2  # of `reduction`


def _accumulated(x: Any) -> Any:
    """Return a gradient in the type in which this library takes gradients of losses."""
    torch = torch_module()
    return x if x.dtype == torch.float64 else x.to(torch.float32)


def _loss(function: Callable[..., Any], x: Any, target: Any, reduction: int, *options: Any) -> Any:
    require(reduction != NONE, "`reduction` is 'none'")
    mean = function(x, target, *options)
    return (mean if reduction == MEAN else mean * x.numel()).to(x.dtype)


def _gradient(
    function: Callable[..., Any], grad: Any, x: Any, target: Any, reduction: int, *options: Any
) -> Any:
    require(reduction != NONE and grad.dim() == 0, "`reduction` is 'none'")
    dloss = _accumulated(grad)
    return function(dloss if reduction == MEAN else dloss * x.numel(), x, target, *options)


def _mse_loss(self: Any, target: Any, reduction: int = MEAN) -> Any:
    return _loss(mse_loss, self, target, reduction)


def _mse_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int) -> Any:
    return _gradient(mse_loss_backward, grad_output, self, target, reduction)


def _huber_loss(self: Any, target: Any, reduction: int = MEAN, delta: float = 1.0) -> Any:
    return _loss(huber_loss, self, target, reduction, delta)


def _huber_loss_backward(
    grad_output: Any, self: Any, target: Any, reduction: int, delta: float
) -> Any:
    return _gradient(huber_loss_backward, grad_output, self, target, reduction, delta)


def _smooth_l1_loss(self: Any, target: Any, reduction: int = MEAN, beta: float = 1.0) -> Any:
    require(beta > 0, "`beta` is 0")
    return _loss(_smooth, self, target, reduction, beta)


def _smooth(x: Any, target: Any, beta: float) -> Any:
    return huber_loss(x, target, beta) / beta


def _smooth_l1_loss_backward(
    grad_output: Any, self: Any, target: Any, reduction: int, beta: float
) -> Any:
    require(beta > 0, "`beta` is 0")
    # Huber's loss is `beta` times this one.
    dloss = _accumulated(grad_output) / beta
    return _gradient(huber_loss_backward, dloss, self, target, reduction, beta)


def _binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> Any:
    require(weight is None, "`weight` is given")
    return _loss(bce_loss, self, target, reduction)


def _binary_cross_entropy_backward(
    grad_output: Any, self: Any, target: Any, weight: Any = None, reduction: int = MEAN
) -> Any:
    require(weight is None, "`weight` is given")
    return _gradient(bce_loss_backward, grad_output, self, target, reduction)


def _binary_cross_entropy_with_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN
) -> Any:
    require(weight is None and pos_weight is None, "`weight` or `pos_weight` is given")
    return _loss(binary_cross_entropy, self, target, reduction)


def nll_loss_forward(
    self: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> tuple[Any, Any]:
    losses = nll_loss(self, target, weight, ignore_index)
    if reduction == NONE:
        return losses.to(self.dtype), self.new_zeros(())
    used = target != ignore_index
    weights = used if weight is None else weight[target.where(used, 0)].where(used, 0)
    total = weights.sum().to(losses.dtype)
    result = losses.sum()
    return (result / total if reduction == MEAN else result).to(self.dtype), total.to(self.dtype)


def _nll_loss_backward(
    grad_output: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total_weight: Any,
) -> Any:
    require(self.dim() == 2, "rows have no batch")
    dloss = _accumulated(grad_output)
    if reduction != NONE:
        share = dloss / _accumulated(total_weight) if reduction == MEAN else dloss
        dloss = share.expand(self.shape[0]).contiguous()
    dtype = str(self.dtype).removeprefix("torch.")
    return nll_loss_backward(dloss, target, self.shape[1], weight, ignore_index, dtype)


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::mse_loss": _mse_loss,
        "aten::mse_loss_backward": _mse_loss_backward,
        "aten::huber_loss": _huber_loss,
        "aten::huber_loss_backward": _huber_loss_backward,
        "aten::smooth_l1_loss": _smooth_l1_loss,
        "aten::smooth_l1_loss_backward": _smooth_l1_loss_backward,
        "aten::binary_cross_entropy": _binary_cross_entropy,
        "aten::binary_cross_entropy_backward": _binary_cross_entropy_backward,
        "aten::binary_cross_entropy_with_logits": _binary_cross_entropy_with_logits,
        "aten::nll_loss_forward": nll_loss_forward,
        "aten::nll_loss_backward": _nll_loss_backward,
    }
)
