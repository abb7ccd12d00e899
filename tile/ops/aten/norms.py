"""PyTorch's batch and group normalization, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, Layout, require, require_wide, torch_module
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


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    require(training, "statistics are given, and PyTorch's results depend on the device")
    require_wide(input, weight, bias, running_mean, running_var)
    view = _View(input)
    vectors = _vectors(input, input.shape[1], weight, bias)
    y, mean, variance = batch_norm(view.enter(input), *vectors, eps=eps, axis=view.axis)
    count = input.numel() // input.shape[1]
    for running, new in (
        (running_mean, mean),
        (running_var, variance * (count / max(count - 1, 1))),
    ):
        if running is not None:
            running.mul_(1 - momentum).add_(new.to(running.dtype), alpha=momentum)
    return view.leave(y), mean, (variance + eps).rsqrt()


def _variance(rstd: Any, eps: float) -> Any:
    """Return the variance whose sum with `eps` has this root."""
    return rstd.square().reciprocal() - eps


def native_batch_norm_backward(
    grad_out: Any,
    input: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    require_wide(input, weight, running_mean, running_var)
    mean, variance = running_mean, running_var
    if train:
        mean, variance = save_mean, _variance(save_invstd, eps)
    view = _View(input)
    ones, _ = _vectors(input, input.shape[1], weight, None)
    dy, x = view.enter(grad_out), view.enter(input)
    dx, *gradients = batch_norm_backward(
        dy, x, ones, mean, variance, eps, view.axis, constant=not train
    )
    return _masked((view.leave(dx), *gradients), output_mask)


def _masked(gradients: tuple[Any, Any, Any], mask: Sequence[bool]) -> tuple[Any, Any, Any]:
    """Return the gradients that are needed, and None for the others."""
    dx, dweight, dbias = (g if m else None for g, m in zip(gradients, mask, strict=True))
    return dx, dweight, dbias


def native_group_norm(
    input: Any,
    weight: Any,
    bias: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Any, Any, Any]:
    require_wide(input, weight, bias)
    x = _image(input, N, C, HxW)
    view = _View(x)
    vectors = _vectors(input, C, weight, bias)
    y, mean, variance = group_norm(view.enter(x), group, *vectors, eps, view.axis)
    return view.leave(y).reshape(input.shape), mean, (variance + eps).rsqrt()


def _image(x: Any, batch: int, channels: int, length: int) -> Any:
    """Return `x` itself if its channels are last in memory, else batch x channels x elements."""
    if x.dim() == 4 and Layout.of(x).name == "NHWC":
        return x
    return x.reshape(batch, channels, length)


def native_group_norm_backward(
    grad_out: Any,
    input: Any,
    mean: Any,
    rstd: Any,
    weight: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    require_wide(input, weight)
    x = _image(input, N, C, HxW)
    view = _View(x)
    ones, _ = _vectors(input, C, weight, None)
    dy = view.enter(grad_out.reshape(x.shape))
    # The backward pass is not told `eps`, and needs the sum alone.
    dx, *gradients = group_norm_backward(
        dy, view.enter(x), group, ones, mean, _variance(rstd, 0.0), 0.0, view.axis
    )
    return _masked((view.leave(dx).reshape(input.shape), *gradients), output_mask)


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::native_batch_norm": native_batch_norm,
        "aten::native_batch_norm_backward": native_batch_norm_backward,
        "aten::native_group_norm": native_group_norm,
        "aten::native_group_norm_backward": native_group_norm_backward,
    }
)
