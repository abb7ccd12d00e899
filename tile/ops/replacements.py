"""PyTorch's operators computed by this library, after one line of change.

    tile.ops.enable()                      for the rest of the program
    with tile.ops.use() as replaced:       for a while
        model(x)
    print(replaced)                        which operators were called, and who computed them

The checks of an op decide: a call that it does not take, because of the type, layout or options of
its arguments, is computed by PyTorch as before. Autograd is PyTorch's; gradients that consist of
replaced operators are computed by their replacements. `torch.compile` generates kernels of its own
for most operators and calls no replacement.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.errors import ArgumentError, ArgumentValueError
from tile.ops.linear.matmul import matmul
from tile.ops.pointwise.losses import mse_loss
from tile.ops.rowwise.softmax import softmax, softmax_backward
from tile.ops.selection.cumsum import cumsum as running_sum
from tile.ops.selection.embedding import embedding as rows_of
from tile.ops.selection.embedding import embedding_backward
from tile.ops.selection.ordering import sort, topk

if TYPE_CHECKING:
    from tile.torch.overrides import override
else:
    override = lazy_import("tile.torch.overrides", "override")  # it imports torch

DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA"}


def require(condition: bool) -> None:
    """Leave a call to PyTorch if a condition is false."""
    if not condition:
        raise ArgumentValueError("options that this library does not have")


def _last(x: Any, dim: int) -> bool:
    return bool(x.dim() > 0 and dim in (-1, x.dim() - 1))


def _precision(x: Any) -> str:
    """Return the precision of matmuls of float32 that the program has chosen in PyTorch."""
    torch = importlib.import_module("torch")
    return "tf32" if x.is_cuda and torch.backends.cuda.matmul.allow_tf32 else "ieee"


def _softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    require(_last(self, dim) and not half_to_float)
    return softmax(self)


def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    require(_last(output, dim) and output.dtype == input_dtype)
    return softmax_backward(grad_output, output)


def mm(self: Any, mat2: Any) -> Any:
    return matmul(self, mat2, precision=_precision(self))


def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    require(beta == alpha == 1 and self.dim() == 1)
    return matmul(mat1, mat2, self, precision=_precision(mat1))


def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    return rows_of(indices, weight)


def embedding_dense_backward(
    grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    require(padding_idx < 0 and not scale_grad_by_freq)
    return embedding_backward(grad_output, indices, num_weights)


def _mse_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    require(reduction == 1)
    return mse_loss(self, target).to(self.dtype)


def _cumsum(self: Any, dim: int, *, dtype: Any = None) -> Any:
    require(_last(self, dim) and self.is_floating_point() and dtype in (None, self.dtype))
    return running_sum(self)


def _topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002 - PyTorch's name
    require(_last(self, dim) and largest)
    return topk(self, k)


def _sort(self: Any, *, stable: Any, dim: int = -1, descending: bool = False) -> Any:
    require(_last(self, dim))
    return sort(self, descending)


OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward_data,
    "aten::mm": mm,
    "aten::bmm": mm,
    "aten::addmm": addmm,
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_dense_backward,
    "aten::mse_loss": _mse_loss,
    "aten::cumsum": _cumsum,
    "aten::topk": _topk,
    "aten::sort.stable": _sort,
}


class Replacements:
    """Replaced operators of PyTorch, until `remove` is called or the `with` block ends.

    `computed` and `left` count the calls by operator: those that this library computed, and those
    that it left to PyTorch.
    """

    def __init__(self, device: str) -> None:
        self.computed: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self._overrides = [
            override(name, self._function(name, function, device), device=device)
            for name, function in OPERATORS.items()
        ]

    def _function(self, name: str, function: Callable[..., Any], device: str) -> Callable[..., Any]:
        torch = importlib.import_module("torch")
        key = DISPATCH_KEYS[device]
        kernel = torch.library.get_kernel(name, key)
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

        @functools.wraps(function)
        def compute(*args: Any, **kwargs: Any) -> Any:
            try:
                result = function(*args, **kwargs)
            except ArgumentError:
                self.left[name] += 1
                return kernel.call_boxed(keys, *args, **kwargs)
            self.computed[name] += 1
            return result

        return compute

    def remove(self) -> None:
        """Let PyTorch compute its operators again."""
        for each in reversed(self._overrides):
            each.remove()

    def __enter__(self) -> Replacements:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        names = sorted({*self.computed, *self.left})
        lines = [f"{n}: {self.computed[n]} by tile, {self.left[n]} by PyTorch" for n in names]
        return "\n".join(lines or ["no replaced operator was called"])


def use(device: str | None = None) -> Replacements:
    """Replace PyTorch's operators by this library's until the `with` block ends.

    device: the kind of device, "cpu" or "cuda"; by default "cuda" where PyTorch has one.
    """
    if device is None:
        torch = importlib.import_module("torch")
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in DISPATCH_KEYS:
        raise ArgumentValueError(f"use takes the kind of a device, 'cpu' or 'cuda', not {device!r}")
    return Replacements(device)


def enable(device: str | None = None) -> Replacements:
    """Replace PyTorch's operators by this library's for the rest of the program; see `use`.

    The result's `remove` ends it, and printing it lists the operators that were called.
    """
    return use(device)
