"""The gradients of attention, from the scores computed anew (Dao et al., arXiv:2205.14135).

    p = softmax(q @ k.T * scale + bias)   dv = p.T @ dout        dp = dout @ v.T
    ds = p * (dp - delta) * scale         dq = ds @ k            dk = ds.T @ q
    delta = sum over features of dout * out, a number for each query
    dbias = p * (dp - delta)              dslopes = - sum of p * (dp - delta) * distance

The forward pass leaves a number for each query, log_sum, from which p = 2 ** (scores - log_sum).
attention_kv_gradient.py, attention_q_gradient.py and attention_bias_gradients.py have the
kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.call import F32, Call, Operand, accumulator
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array, wide
from tile.ops.sequence.attention_arguments import (
    check_shapes,
    distances,
    scores_of,
    strides_of_bias,
    window_of,
)
from tile.ops.sequence.attention_bias_launches import bias_gradient, slopes_gradient
from tile.ops.sequence.attention_gradient_launches import TABLE, Gradients, launch_delta
from tile.ops.sequence.descriptor_kv_gradient import SUM_TILES, is_of_size


@planned()
def attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    result: Any,
    log_sums: Any,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: Any = None,
    slopes: Any = None,
    bias_gradients: bool = False,
    deterministic: bool = True,
) -> tuple[Any, ...]:
    """Return the gradients of q, k and v from `dout`, that of the result.

    result, log_sums: both results of `attention(q, k, v, causal, scale, True, window, bias,
    slopes)`. These arrays are contiguous. With `bias_gradients`, those of the bias and the slopes
    follow, of each that is given; the bias's is a sum along its axes of one element. deterministic:
    else dq may be added up in any order, so that its rounding differs from run to run, where that
    is faster: with heads of 65 to 128 16-bit numbers, 2048 keys or more and queries that are a
    multiple of 4, without a window, bias and slopes.
    """
    call = Call("attention_backward")
    source = call.array("q", q, rank=4).contiguous()
    key, value = (
        call.array(name, array, dtypes=(source.dtype,), rank=4).contiguous()
        for name, array in (("k", k), ("v", v))
    )
    batches, heads, queries, size = source.shape
    keys = check_shapes(call, source, key, value, causal)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    bias_strides = strides_of_bias(call, bias, (batches, heads, queries, keys))
    if slopes is not None:
        call.array("slopes", slopes, dtypes=(F32,), rank=1, shape=(heads,)).contiguous()
    gradient, _ = (
        call.array(name, array, dtypes=(source.dtype,), rank=4, shape=source.shape).contiguous()
        for name, array in (("dout", dout), ("result", result))
    )
    sums = accumulator(source.dtype)
    shape = (batches, heads, queries)
    call.array("log_sums", log_sums, dtypes=(sums,), rank=3, shape=shape).contiguous()
    dq, dk, dv = (call.new(operand.shape, source.dtype).value for operand in (source, key, value))
    delta = call.new(shape, sums).value
    gradients = Gradients(
        inputs=(q, k, v, dout, log_sums, delta),
        outputs=(dq, dk, dv),
        bias=(bias, slopes, bias_strides),
        starts=(None, None),
        q_strides=(heads * queries * size, queries * size, size),
        k_strides=(key.shape[1] * keys * size, keys * size, size),
        log_strides=(heads * queries, queries),
        batches=batches,
        heads=heads,
        key_heads=key.shape[1],
        queries=queries,
        keys=keys,
    )
    config = TABLE.select(call.backend, size, source.dtype.itemsize)
    plain = window is None and bias is None and slopes is None
    if plain and _describes(call, source, key, value, gradient):
        # Blocks of other heads begin in front of them, where TMA reductions are illegal.
        aligned = not deterministic and queries % 4 == 0
        adds = aligned and SUM_TILES.select(call.backend, size, keys)
        partial = call.new(source.shape, sums).value if adds else None
        gradients.launch_by_descriptors(call.backend, result, size, scale, bool(causal), partial)
    else:
        if source.size:
            launch_delta(result, dout, delta, source.shape, 1)
        if key.size:
            gradients.launch(config, size, scale, causal, window)
    results = [dq, dk, dv]
    options = (config, size, scale, causal, window)
    if bias_gradients and bias is not None:
        results.append(bias_gradient(call, gradients, *options))
    if bias_gradients and slopes is not None:
        results.append(slopes_gradient(call, gradients, *options))
    return tuple(results)


def _describes(call: Call, *operands: Operand) -> bool:
    """Return True if there are kernels that load blocks of q, k, v and dout by descriptors."""
    source = operands[0]
    fits = is_of_size(source.shape[-1]) and source.dtype.itemsize == 2
    return fits and all(operand.size for operand in operands) and call.describes(*operands)


def attention_backward_reference(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    result: Array,
    log_sums: Array,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: Array | None = None,
    slopes: Array | None = None,
    bias_gradients: bool = False,
) -> tuple[Array, ...]:
    """Return the gradients in float64, without the use of `result` and `log_sums`."""
    group = q.shape[1] // k.shape[1]
    dout, q, k, v = wide(dout, q, k, v)
    many_k, many_v = (np.repeat(array, group, axis=1) for array in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scores_of(q, many_k, causal, scale, window, bias, slopes)
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.where(np.isneginf(highest), 0.0, highest))
    total = p.sum(axis=-1, keepdims=True)
    p = p / np.where(total == 0, 1.0, total)
    dp = dout @ many_v.swapaxes(-1, -2)
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    ds = dscores * scale
    heads = (*k.shape[:2], group, *k.shape[2:])
    dk = (ds.swapaxes(-1, -2) @ q).reshape(heads).sum(axis=2)
    dv = (p.swapaxes(-1, -2) @ dout).reshape(heads).sum(axis=2)
    results = [ds @ many_k, dk, dv]
    if bias_gradients and bias is not None:
        ones = tuple(axis for axis, extent in enumerate(bias.shape) if extent == 1)
        results.append(dscores.sum(axis=ones, keepdims=True))
    if bias_gradients and slopes is not None:
        results.append(-(dscores * distances(*dscores.shape[-2:])).sum(axis=(0, 2, 3)))
    return tuple(results)
