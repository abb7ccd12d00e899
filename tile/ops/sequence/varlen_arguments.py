"""The arguments that attention of sequences of different lengths and its gradients share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.reference import Array
from tile.ops.sequence.attention_arguments import check_heads


def varlen_operands(
    call: Call, q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any
) -> tuple[Operand, Operand, Operand, Operand]:
    """Return q, k and both starts, or raise `ArgumentError` unless all five fit together."""
    source = call.array("q", q, rank=3).contiguous()
    dtypes, (_, heads, size) = (source.dtype,), source.shape
    key = call.array("k", k, dtypes=dtypes, rank=3).contiguous()
    call.array("v", v, dtypes=dtypes, rank=3, shape=key.shape).contiguous()
    if key.shape[2] != size:
        raise ArgumentValueError(
            f"{call.op}: `q` has shape {source.shape} and `k` {key.shape}; they must be tokens x "
            "heads x size, and tokens x key heads x size"
        )
    check_heads(call, heads, key.shape[1])
    starts = call.array("q_starts", q_starts, dtypes=(I32,), rank=1).contiguous()
    key_starts = call.array("k_starts", k_starts, dtypes=(I32,), rank=1, shape=starts.shape)
    key_starts.contiguous()
    if starts.size == 0:
        raise ArgumentValueError(f"{call.op}: `q_starts` is empty; it has the end of the last, too")
    return source, key, starts, key_starts


def check_lengths(starts: Operand, tokens: int, longest: int | None = None) -> None:
    """Raise `ArgumentValueError` for starts in host memory that are not those of `tokens`."""
    values = starts.host
    if values is None:
        return
    lengths = np.diff(values)
    if values[0] != 0 or values[-1] != tokens or (lengths < 0).any():
        raise ArgumentValueError(
            f"{starts.op}: `{starts.name}` is {values.tolist()}; it must go from 0 to {tokens}, "
            "the number of tokens, and not decrease"
        )
    if longest is not None and (lengths > longest).any():
        raise ArgumentValueError(
            f"{starts.op}: `{starts.name}` has a sequence of {lengths.max()} tokens; `longest` or "
            f"`longest_keys` is {longest}"
        )


def strides_of(operand: Operand) -> tuple[int, int, int]:
    """Return the strides of a batch, of which there is one, a head, and a row."""
    _, heads, size = operand.shape
    return 0, size, heads * size


def sequences_of(starts: Array) -> list[slice]:
    """Return where each sequence is."""
    return [slice(a, b) for a, b in itertools.pairwise(starts)]
