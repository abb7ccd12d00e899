"""The arguments that the attention ops share, and the scores of their references."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand
from tile.ops.core.reference import Array

MOST_WINDOW = 2**30  # positions are 32-bit


def window_of(call: Call, window: int | None) -> int | None:
    """Return the window; raise `ArgumentError` unless it is None or 1 or more."""
    if window is None:
        return None
    return min(call.integer("window", window, low=1), MOST_WINDOW)


def strides_of_bias(call: Call, bias: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a bias for scores of this shape, 0 for axes of one element."""
    if bias is None:
        return (0, 0, 0, 0)
    operand = call.array("bias", bias, rank=4)
    if any(extent not in (1, n) for extent, n in zip(operand.shape, shape, strict=True)):
        raise ArgumentValueError(
            f"{call.op}: `bias` has shape {operand.shape}; each extent must be 1 or that of "
            f"{shape}, batch x heads x queries x keys"
        )
    return tuple(
        0 if extent == 1 else stride
        for extent, stride in zip(operand.shape, operand.strides, strict=True)
    )


def check_shapes(call: Call, q: Operand, k: Operand, v: Operand, causal: bool) -> int:
    """Return the number of keys; raise `ArgumentValueError` if the shapes do not fit."""
    (batches, heads, queries, size), (_, key_heads, keys, _) = q.shape, k.shape
    if k.shape != v.shape or k.shape[0] != batches or k.shape[3] != size:
        raise ArgumentValueError(
            f"{call.op}: `q` has shape {q.shape}, `k` {k.shape} and `v` {v.shape}; they must be "
            "batch x heads x queries x size, and twice batch x key heads x keys x size"
        )
    check_heads(call, heads, key_heads)
    if queries and (keys == 0 or (causal and keys < queries)):
        raise ArgumentValueError(
            f"{call.op}: there are {queries} queries and {keys} keys; each query must see a key"
        )
    return keys


def check_heads(call: Call, heads: int, key_heads: int) -> None:
    """Raise `ArgumentValueError` unless as many query heads share each head of keys."""
    if key_heads == 0 or heads % key_heads:
        raise ArgumentValueError(
            f"{call.op}: `q` has {heads} heads and `k` {key_heads}; the first must be a multiple"
        )


def seen_keys(queries: int, keys: int, causal: bool = True, window: int | None = None) -> Array:
    """Return which keys each query sees, queries x keys."""
    ahead = np.arange(keys) - np.arange(queries)[:, None] - (keys - queries)
    seen: Array = ahead <= 0 if causal else ahead <= keys + queries
    return seen if window is None else seen & (np.abs(ahead) < window)


def scores_of(
    q: Array,
    k: Array,
    causal: bool,
    scale: float | None,
    window: int | None,
    bias: Array | None,
    slopes: Array | None,
) -> Array:
    """Return the scores in float64, -inf for keys that are not seen; `k` has the heads of `q`."""
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    queries, keys = scores.shape[-2:]
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    if slopes is not None:
        scores = scores - slopes.astype(np.float64)[:, None, None] * distances(queries, keys)
    result: Array = np.where(seen_keys(queries, keys, causal, window), scores, -np.inf)
    return result


def distances(queries: int, keys: int) -> Array:
    """Return the distance of the position of each query from that of each key."""
    ahead: Array = np.arange(keys) - np.arange(queries)[:, None] - (keys - queries)
    return np.abs(ahead)
