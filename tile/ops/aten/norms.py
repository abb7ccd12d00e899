"""PyTorch's batch and group normalization, forward and backward."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import (
    Arguments,
    Layout,
    Operators,
    masked,
    require,
    require_wide,
    torch_module,
)
from tile.ops.channels.batch_norm import batch_norm, batch_norm_backward
from tile.ops.channels.group_norm import group_norm, group_norm_backward


def _vectors(x: Any, channels: int, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Return weight and bias; 1 and 0 if they are None."""
    options = {"dtype": x.dtype, "device": x.device}
    ones = torch_module().ones(channels, **options) if weight is None else weight
    return ones, torch_module().zeros(channels, **options) if bias is None else bias


class _View:
    """A tensor, batch x channels x any axes, with channels last if they are so in memory."""

    def __init__(self, x: Any) -> None:
        self._layout = Layout.of(x) if x.dim() == 4 else Layout("NCHW")
        self.axis = -1 if self._layout.name == "NHWC" else 1
        self.enter, self.leave = self._layout.enter, self._layout.leave


def _variance(rstd: Any, eps: float) -> Any:
    """Return the variance whose sum with `eps` has this root."""
    return rstd.square().reciprocal() - eps


def _batch_norm(args: Arguments) -> tuple[Any, Any, Any]:
    x, eps = args.input, args.eps
    require(args.training, "statistics are given, and PyTorch's results depend on the device")
    require_wide(x, args.weight, args.bias, args.running_mean, args.running_var)
    view, vectors = _View(x), _vectors(x, x.shape[1], args.weight, args.bias)
    y, mean, variance = batch_norm(view.enter(x), *vectors, eps=eps, axis=view.axis)
    count = x.numel() // x.shape[1]
    for running, new in (
        (args.running_mean, mean),
        (args.running_var, variance * (count / max(count - 1, 1))),
    ):
        if running is not None:
            running.mul_(1 - args.momentum).add_(new.to(running.dtype), alpha=args.momentum)
    return view.leave(y), mean, (variance + eps).rsqrt()


def _batch_norm_backward(args: Arguments) -> tuple[Any, ...]:
    x, eps = args.input, args.eps
    require_wide(x, args.weight, args.running_mean, args.running_var)
    mean, variance = args.running_mean, args.running_var
    if args.train:
        mean, variance = args.save_mean, _variance(args.save_invstd, eps)
    view, (ones, _) = _View(x), _vectors(x, x.shape[1], args.weight, None)
    dx, *gradients = batch_norm_backward(
        *(view.enter(args.grad_out), view.enter(x), ones, mean, variance, eps, view.axis),
        constant=not args.train,
    )
    return masked((view.leave(dx), *gradients), args.output_mask)


def _image(args: Arguments) -> Any:
    """Return the input itself if its channels are last in memory, else its channels as rows."""
    x = args.input
    if x.dim() == 4 and Layout.of(x).name == "NHWC":
        return x
    return x.reshape(args.N, args.C, args.HxW)


def _group_norm(args: Arguments) -> tuple[Any, Any, Any]:
    require_wide(args.input, args.weight, args.bias)
    x = _image(args)
    view, vectors = _View(x), _vectors(x, args.C, args.weight, args.bias)
    y, mean, variance = group_norm(view.enter(x), args.group, *vectors, args.eps, view.axis)
    return view.leave(y).reshape(args.input.shape), mean, (variance + args.eps).rsqrt()


def _group_norm_backward(args: Arguments) -> tuple[Any, ...]:
    require_wide(args.input, args.weight)
    x = _image(args)
    view, (ones, _) = _View(x), _vectors(x, args.C, args.weight, None)
    dy, variance = view.enter(args.grad_out.reshape(x.shape)), _variance(args.rstd, 0.0)
    # The backward pass is not told `eps`, and needs the sum alone.
    dx, *gradients = group_norm_backward(
        dy, view.enter(x), args.group, ones, args.mean, variance, 0.0, view.axis
    )
    return masked((view.leave(dx).reshape(args.input.shape), *gradients), args.output_mask)


OPERATORS: Operators = MappingProxyType(
    {
        "aten::native_batch_norm": _batch_norm,
        "aten::native_batch_norm_backward": _batch_norm_backward,
        "aten::native_group_norm": _group_norm,
        "aten::native_group_norm_backward": _group_norm_backward,
    }
)
