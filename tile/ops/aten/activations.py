"""PyTorch's activations, forward and backward."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Implementation, Operators, require
from tile.ops.pointwise.activation import activate, activate_backward

NAMES = ("relu", "silu", "sigmoid", "tanh")


def _dense(x: Any) -> Any:
    """Return the elements of a tensor in the order of its memory, as a contiguous view."""
    if x.dim() == 4 and not x.is_contiguous():
        x = x.permute(0, 2, 3, 1)  # of PyTorch's format `channels_last`
    require(x.is_contiguous(), "a tensor is not contiguous")
    return x if x.dim() else x.view(1)


def _restored(result: Any, like: Any) -> Any:
    """Return a result of `_dense` views in the shape and order of the tensor."""
    if result.shape != like.shape or (like.dim() == 4 and not like.is_contiguous()):
        return result.permute(0, 3, 1, 2) if like.dim() == 4 else result.view(like.shape)
    return result


def _forward(name: str) -> Implementation:
    return lambda args: _restored(activate(_dense(args.self), name), args.self)


def _in_place(name: str) -> Implementation:
    def compute(args: Arguments) -> Any:
        x = _dense(args.self)
        activate(x, name, out=x)
        return args.self

    return compute


def _backward(name: str, source: str = "self", from_result: bool = False) -> Implementation:
    """Return the implementation of a gradient; source: the argument from which it is computed."""

    def compute(args: Arguments) -> Any:
        dy, x = args.grad_output, getattr(args, source)
        require(getattr(args, "threshold", 0) == 0, "`threshold` is not 0")
        require(dy.shape == x.shape and dy.stride() == x.stride(), "layouts of tensors differ")
        return _restored(activate_backward(_dense(dy), _dense(x), name, from_result), x)

    return compute


def _gelu(form: Any) -> Implementation:
    by_tanh, by_erf = form("gelu"), form("gelu_erf")
    return lambda args: (by_tanh if args.approximate == "tanh" else by_erf)(args)


OPERATORS: Operators = MappingProxyType(
    {
        **{f"aten::{name}": _forward(name) for name in NAMES},
        **{f"aten::{name}_": _in_place(name) for name in NAMES},
        "aten::gelu": _gelu(_forward),
        "aten::gelu_backward": _gelu(_backward),
        "aten::silu_backward": _backward("silu"),
        "aten::sigmoid_backward": _backward("sigmoid", "output", from_result=True),
        "aten::tanh_backward": _backward("tanh", "output", from_result=True),
        "aten::threshold_backward": _backward("relu", from_result=True),
    }
)
