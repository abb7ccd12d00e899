"""PyTorch's operators on rows: softmax, scans, order, and rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Implementation, Operators, require
from tile.ops.rowwise.log_softmax import log_softmax, log_softmax_backward
from tile.ops.rowwise.softmax import softmax, softmax_backward
from tile.ops.selection.cummax import cummax, cummin
from tile.ops.selection.cumprod import cumprod
from tile.ops.selection.cumsum import cumsum
from tile.ops.selection.embedding import embedding
from tile.ops.selection.embedding_backward import embedding_backward
from tile.ops.selection.logcumsumexp import logcumsumexp
from tile.ops.selection.sort import sort
from tile.ops.selection.topk import topk


def _rows(function: Callable[..., Any], *names: str) -> Implementation:
    """Return an operator along `dim`, by a function of the arguments of these names."""

    def compute(args: Arguments) -> Any:
        x = getattr(args, names[0])
        require(x.dim() > 0 and args.dim in (-1, x.dim() - 1), "`dim` is not the last axis")
        require(getattr(args, "largest", True), "the smallest elements are wanted")
        require(not getattr(args, "half_to_float", False), "the result has another type")
        dtype = getattr(args, "input_dtype", None) or getattr(args, "dtype", None)
        require(dtype in (None, x.dtype), "the result has another type")
        return function(*(getattr(args, name) for name in names))

    return compute


def _scan(function: Callable[..., Any]) -> Implementation:
    along = _rows(function, "self")

    def compute(args: Arguments) -> Any:
        require(args.self.is_floating_point(), "integers are accumulated in 64 bits")
        return along(args)

    return compute


def _embedding_backward(args: Arguments) -> Any:
    require(not args.scale_grad_by_freq, "`scale_grad_by_freq` is given")
    result = embedding_backward(args.grad_output, args.indices, args.num_weights)
    if args.padding_idx >= 0:
        result[args.padding_idx] = 0
    return result


OPERATORS: Operators = MappingProxyType(
    {
        "aten::_softmax": _rows(softmax, "self"),
        "aten::_softmax_backward_data": _rows(softmax_backward, "grad_output", "output"),
        "aten::_log_softmax": _rows(log_softmax, "self"),
        "aten::_log_softmax_backward_data": _rows(log_softmax_backward, "grad_output", "output"),
        "aten::embedding": lambda args: embedding(args.indices, args.weight),
        "aten::embedding_dense_backward": _embedding_backward,
        "aten::cummax": _rows(cummax, "self"),
        "aten::cummin": _rows(cummin, "self"),
        "aten::cumprod": _scan(cumprod),
        "aten::cumsum": _scan(cumsum),
        "aten::logcumsumexp": _rows(logcumsumexp, "self"),
        "aten::topk": _rows(topk, "self", "k"),
        "aten::sort.stable": _rows(sort, "self", "descending"),
    }
)
