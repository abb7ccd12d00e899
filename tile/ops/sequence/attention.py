"""Attention that never stores its scores: causal, windowed, biased, with grouped heads.

    out = softmax(q @ k.T * scale + bias) @ v        for each head, over the keys that a query sees

The position of query i is i + keys - queries: the last query has that of the last key. Causal
attention sees the keys up to a query's own position, a window those less than so many positions
away (arXiv:2004.05150). The slopes of ALiBi (arXiv:2108.12409) subtract slope * distance from the
scores of a head. Several query heads may share one head of keys (arXiv:2305.13245).
attention_kernel.py has the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import F32, Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.sequence.attention_kernel import LOG2_E, TABLE, attention_kernel

MOST_WINDOW = 2**30  # positions are 32-bit


@planned()
def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
    window: int | None = None,
    bias: Any = None,
    slopes: Any = None,
    *,
    out: Any = None,
) -> Any:
    """Return the attention of queries `q` to keys `k` and values `v`, in their type.

    q: batch x heads x queries x size; k and v: batch x key heads x keys x size, where heads is a
    multiple of key heads; the last axis is contiguous. causal: the last query sees all keys, each
    query before one less. scale: of the scores (None: size ** -0.5). window: a query sees only keys
    less than so many positions away. bias: added to the scores, of any float type; batch or 1 x
    heads or 1 x queries or 1 x keys. slopes: ALiBi's, heads of float32. With `log_sums` the result
    is (out, log2 of the sum of the powers of each query), which `attention_backward` takes.
    """
    call = Call("attention")
    source = call.array("q", q, rank=4)
    key, value = (
        call.array(name, array, dtypes=(source.dtype,), rank=4)
        for name, array in (("k", k), ("v", v))
    )
    batches, heads, queries, size = source.shape
    keys = check_shapes(call, source, key, value, causal)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    bias_strides = strides_of_bias(call, bias, (batches, heads, queries, keys))
    if slopes is not None:
        call.array("slopes", slopes, dtypes=(F32,), rank=1, shape=(heads,)).contiguous()
    result = call.output("out", out, source.shape, source.dtype)
    for operand in (source, key, value, result):
        operand.last_contiguous()
    sums = accumulator(source.dtype)
    logs = call.new((batches, heads, queries), sums) if log_sums else None
    if result.size:
        config = TABLE.select(call.backend, size, source.dtype.itemsize)
        launch(attention_kernel, (tile.cdiv(queries, config["BLOCK_M"]), batches * heads))(
            *(q, k, v, result.value, logs and logs.value, bias, slopes, None, None),
            *(operand.strides[:3] for operand in (source, key, value, result)),
            *((heads * queries, queries), bias_strides),
            *(heads, heads // key.shape[1], queries, keys, window),
            SCALE=scale * LOG2_E,
            SIZE=size,
            CAUSAL=bool(causal),
            SUMS=getattr(tl, sums.name),
            HEAD=max(16, tile.next_power_of_2(size)),
            **config,
        )
    return (result.value, logs.value) if logs else result.value


def window_of(call: Call, window: int | None) -> int | None:
    """Return the window; raise `ArgumentError` unless it is None or 1 or more."""
    if window is None:
        return None
    return int(min(call.number("window", window, low=1), MOST_WINDOW))


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
        distance = np.abs(np.arange(keys) - np.arange(queries)[:, None] - (keys - queries))
        scores = scores - slopes.astype(np.float64)[:, None, None] * distance
    result: Array = np.where(seen_keys(queries, keys, causal, window), scores, -np.inf)
    return result


def attention_reference(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
    window: int | None = None,
    bias: Array | None = None,
    slopes: Array | None = None,
) -> Any:
    """Return the result in float64."""
    q, k, v = wide(q, k, v)
    k, v = (np.repeat(array, q.shape[1] // k.shape[1], axis=1) for array in (k, v))
    scores = scores_of(q, k, causal, scale, window, bias, slopes)
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    origin = np.where(np.isneginf(highest), 0.0, highest)
    powers = np.exp(scores - origin)
    total = powers.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # of a query that sees no key
        logs, result = (origin + np.log(total))[..., 0] * LOG2_E, powers / total @ v
    return (result, logs) if log_sums else result
