"""PyTorch's operators on rows: softmax, scans, order, and rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require, require_last
from tile.ops.rowwise.log_softmax import log_softmax, log_softmax_backward
from tile.ops.rowwise.softmax import softmax, softmax_backward
from tile.ops.selection.cummax import cummax, cummin
from tile.ops.selection.cumprod import cumprod
from tile.ops.selection.cumsum import cumsum
from tile.ops.selection.embedding import embedding, embedding_backward
from tile.ops.selection.logcumsumexp import logcumsumexp
from tile.ops.selection.ordering import sort, topk


def _softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    require_last(self, dim)
    require(not half_to_float, "the result has another type")
    return softmax(self)


def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    require_last(output, dim)
    require(output.dtype == input_dtype, "the gradient has another type")
    return softmax_backward(grad_output, output)


def _log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    require_last(self, dim)
    require(not half_to_float, "the result has another type")
    return log_softmax(self)


def _log_softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    require_last(output, dim)
    require(output.dtype == input_dtype, "the gradient has another type")
    return log_softmax_backward(grad_output, output)


def _embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    return embedding(indices, weight)


def _embedding_dense_backward(
    grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    require(not scale_grad_by_freq, "`scale_grad_by_freq` is given")
    result = embedding_backward(grad_output, indices, num_weights)
    if padding_idx >= 0:
        result[padding_idx] = 0
    return result


def _scan(function: Any) -> Implementation:
    def compute(self: Any, dim: int, *, dtype: Any = None) -> Any:
        require_last(self, dim)
        require(self.is_floating_point(), "integers are accumulated in 64 bits")
        require(dtype in (None, self.dtype), "the result has another type")
        return function(self)

    return compute


def _extremes(function: Any) -> Implementation:
    def compute(self: Any, dim: int) -> tuple[Any, Any]:
        require_last(self, dim)
        values, indices = function(self)
        return values, indices

    return compute


def _logcumsumexp(self: Any, dim: int) -> Any:
    require_last(self, dim)
    return logcumsumexp(self)


def _topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002 - PyTorch's name
    require_last(self, dim)
    require(largest, "the smallest elements are wanted")
    return topk(self, k)


def _sort(self: Any, *, stable: Any, dim: int = -1, descending: bool = False) -> Any:
    require_last(self, dim)
    return sort(self, descending)


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::_softmax": _softmax,
        "aten::_softmax_backward_data": _softmax_backward_data,
        "aten::_log_softmax": _log_softmax,
        "aten::_log_softmax_backward_data": _log_softmax_backward_data,
        "aten::embedding": _embedding,
        "aten::embedding_dense_backward": _embedding_dense_backward,
        "aten::cummax": _extremes(cummax),
        "aten::cummin": _extremes(cummin),
        "aten::cumprod": _scan(cumprod),
        "aten::cumsum": _scan(cumsum),
        "aten::logcumsumexp": _logcumsumexp,
        "aten::topk": _topk,
        "aten::sort.stable": _sort,
    }
)
