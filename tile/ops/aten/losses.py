"""PyTorch's losses, forward and backward: means and sums of all elements."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Implementation, Operators, require, torch_module
from tile.ops.pointwise.binary_cross_entropy import (
    bce_loss,
    bce_loss_backward,
    binary_cross_entropy,
)
from tile.ops.pointwise.huber_loss import huber_loss, huber_loss_backward
from tile.ops.pointwise.losses import mse_loss, mse_loss_backward
from tile.ops.rowwise.nll_loss import nll_loss
from tile.ops.rowwise.nll_loss_backward import nll_loss_backward

NONE, MEAN, SUM = 0, 1, 2  # of `reduction`
Function = Callable[..., Any]


def _accumulated(x: Any) -> Any:
    """Return a gradient in the type in which this library takes gradients of losses."""
    torch = torch_module()
    return x if x.dtype == torch.float64 else x.to(torch.float32)


def _options(args: Arguments, names: tuple[str, ...]) -> list[Any]:
    """Return the options of these names; leave weighted losses to PyTorch."""
    for name in ("weight", "pos_weight"):
        require(getattr(args, name, None) is None, f"`{name}` is given")
    require(getattr(args, "beta", 1) > 0, "`beta` is 0")
    return [getattr(args, name) for name in names]


def _loss(function: Function, *names: str) -> Implementation:
    """Return the implementation of a loss whose mean a function of this library returns."""

    def compute(args: Arguments) -> Any:
        require(args.reduction != NONE, "`reduction` is 'none'")
        mean = function(args.self, args.target, *_options(args, names))
        return (mean if args.reduction == MEAN else mean * args.self.numel()).to(args.self.dtype)

    return compute


def _gradient(function: Function, *names: str) -> Implementation:
    """Return the implementation of the gradient of a loss."""

    def compute(args: Arguments) -> Any:
        dloss, x = _accumulated(args.grad_output), args.self
        require(args.reduction != NONE and dloss.dim() == 0, "`reduction` is 'none'")
        dloss = dloss if args.reduction == MEAN else dloss * x.numel()
        return function(dloss, x, args.target, *_options(args, names))

    return compute


def _smooth(x: Any, target: Any, beta: float) -> Any:
    """Return the smooth absolute loss; Huber's is `beta` times it."""
    return huber_loss(x, target, beta) / beta


def _smooth_backward(dloss: Any, x: Any, target: Any, beta: float) -> Any:
    return huber_loss_backward(dloss / beta, x, target, beta)


def _nll_loss(args: Arguments) -> tuple[Any, Any]:
    x, target, weight = args.self, args.target, args.weight
    losses = nll_loss(x, target, weight, args.ignore_index)
    if args.reduction == NONE:
        return losses.to(x.dtype), x.new_zeros(())
    used = target != args.ignore_index
    weights = used if weight is None else weight[target.where(used, 0)].where(used, 0)
    total = weights.sum().to(losses.dtype)
    result = losses.sum()
    return (result / total if args.reduction == MEAN else result).to(x.dtype), total.to(x.dtype)


def _nll_loss_backward(args: Arguments) -> Any:
    x = args.self
    require(x.dim() == 2, "rows have no batch")
    dloss = _accumulated(args.grad_output)
    if args.reduction != NONE:
        total = _accumulated(args.total_weight)
        share = dloss / total if args.reduction == MEAN else dloss
        dloss = share.expand(x.shape[0]).contiguous()
    dtype = str(x.dtype).removeprefix("torch.")
    options = args.weight, args.ignore_index, dtype
    return nll_loss_backward(dloss, args.target, x.shape[1], *options)


OPERATORS: Operators = MappingProxyType(
    {
        "aten::mse_loss": _loss(mse_loss),
        "aten::mse_loss_backward": _gradient(mse_loss_backward),
        "aten::huber_loss": _loss(huber_loss, "delta"),
        "aten::huber_loss_backward": _gradient(huber_loss_backward, "delta"),
        "aten::smooth_l1_loss": _loss(_smooth, "beta"),
        "aten::smooth_l1_loss_backward": _gradient(_smooth_backward, "beta"),
        "aten::binary_cross_entropy": _loss(bce_loss),
        "aten::binary_cross_entropy_backward": _gradient(bce_loss_backward),
        "aten::binary_cross_entropy_with_logits": _loss(binary_cross_entropy),
        "aten::nll_loss_forward": _nll_loss,
        "aten::nll_loss_backward": _nll_loss_backward,
    }
)
