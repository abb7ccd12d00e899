"""PyTorch's activations, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require
from tile.ops.pointwise.activation import activate, activate_backward


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
    return lambda self: _restored(activate(_dense(self), name), self)


def _in_place(name: str) -> Implementation:
    def compute(self: Any) -> Any:
        x = _dense(self)
        activate(x, name, out=x)
        return self

    return compute


def _gradient(dy: Any, x: Any, name: str, from_result: bool = False) -> Any:
    require(dy.shape == x.shape and dy.stride() == x.stride(), "layouts of tensors differ")
    return _restored(activate_backward(_dense(dy), _dense(x), name, from_result), x)


def _gelu_name(approximate: str) -> str:
    return "gelu" if approximate == "tanh" else "gelu_erf"


def gelu(self: Any, *, approximate: str = "none") -> Any:
    return _restored(activate(_dense(self), _gelu_name(approximate)), self)


def gelu_backward(grad_output: Any, self: Any, *, approximate: str = "none") -> Any:
    return _gradient(grad_output, self, _gelu_name(approximate))


def silu_backward(grad_output: Any, self: Any) -> Any:
    return _gradient(grad_output, self, "silu")


def sigmoid_backward(grad_output: Any, output: Any) -> Any:
    return _gradient(grad_output, output, "sigmoid", True)


def tanh_backward(grad_output: Any, output: Any) -> Any:
    return _gradient(grad_output, output, "tanh", True)


def threshold_backward(grad_output: Any, self: Any, threshold: Any) -> Any:
    require(threshold == 0, "`threshold` is not 0")
    return _gradient(grad_output, self, "relu", True)


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        **{f"aten::{name}": _forward(name) for name in ("relu", "silu", "sigmoid", "tanh")},
        **{f"aten::{name}_": _in_place(name) for name in ("relu", "silu", "sigmoid", "tanh")},
        "aten::gelu": gelu,
        "aten::gelu_backward": gelu_backward,
        "aten::silu_backward": silu_backward,
        "aten::sigmoid_backward": sigmoid_backward,
        "aten::tanh_backward": tanh_backward,
        "aten::threshold_backward": threshold_backward,
    }
)
