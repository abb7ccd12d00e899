"""The gradients of attention of sequences of different lengths.

They are those of attention_backward.py, of each sequence by itself; programs past the end of a
sequence end at once. Where TMA can load blocks, the kernels are those of varlen_kv_gradient.py and
varlen_q_gradient.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.sequence import attention_gradient_launches as backward
from tile.ops.sequence.attention_arguments import window_of
from tile.ops.sequence.attention_backward import attention_backward_reference
from tile.ops.sequence.varlen_arguments import (
    check_lengths,
    sequences_of,
    strides_of,
    varlen_operands,
)
from tile.ops.sequence.varlen_gradient_launches import describes, launch_by_descriptors


@planned()
def varlen_attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    result: Any,
    log_sums: Any,
    q_starts: Any,
    k_starts: Any,
    longest: int,
    longest_keys: int,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of q, k and v from `dout`, that of the result.

    result, log_sums: both results of `varlen_attention`. longest_keys: at least the keys of each
    sequence.
    """
    call = Call("varlen_attention_backward")
    source, key, starts, key_starts = varlen_operands(call, q, k, v, q_starts, k_starts)
    tokens, heads, size = source.shape
    longest = call.integer("longest", longest, low=0)
    longest_keys = call.integer("longest_keys", longest_keys, low=0)
    check_lengths(starts, tokens, longest)
    check_lengths(key_starts, key.shape[0], longest_keys)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    for name, array in (("dout", dout), ("result", result)):
        call.array(name, array, dtypes=(source.dtype,), rank=3, shape=source.shape).contiguous()
    sums = accumulator(source.dtype)
    call.array("log_sums", log_sums, dtypes=(sums,), shape=(heads, tokens)).contiguous()
    dq, dk, dv = (call.new(operand.shape, source.dtype).value for operand in (source, key, key))
    plain = window is None and source.size and key.size
    if plain and longest and longest_keys and describes(call):
        launch_by_descriptors(
            *(call, (q, k, v, dout), result, log_sums, (dq, dk, dv), (q_starts, k_starts)),
            *(starts.size - 1, longest, longest_keys, scale, bool(causal)),
        )
        return dq, dk, dv
    delta = call.new((heads, tokens), sums).value
    if source.size:
        backward.launch_delta(result, dout, delta, source.shape, heads)
    if key.size:
        backward.Gradients(
            inputs=(q, k, v, dout, log_sums, delta),
            outputs=(dq, dk, dv),
            bias=(None, None, (0, 0, 0, 0)),
            starts=(q_starts, k_starts),
            q_strides=strides_of(source),
            k_strides=strides_of(key),
            log_strides=(0, tokens),
            batches=starts.size - 1,
            heads=heads,
            key_heads=key.shape[1],
            queries=longest if source.size else 0,
            keys=longest_keys,
        ).launch(
            backward.TABLE.select(call.backend, size, source.dtype.itemsize),
            *(size, scale, causal, window),
        )
    return dq, dk, dv


def varlen_attention_backward_reference(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    result: Array,
    log_sums: Array,
    q_starts: Array,
    k_starts: Array,
    longest: int,
    longest_keys: int,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    dq, dk, dv = (np.zeros(array.shape) for array in (q, k, v))
    for rows, keys in zip(sequences_of(q_starts), sequences_of(k_starts), strict=True):
        grad, one, one_k, one_v = (
            array[None].swapaxes(1, 2) for array in (dout[rows], q[rows], k[keys], v[keys])
        )
        grads = attention_backward_reference(
            grad, one, one_k, one_v, result, log_sums, causal, scale, window
        )
        for whole, at, part in zip((dq, dk, dv), (rows, keys, keys), grads, strict=True):
            whole[at] = part[0].swapaxes(0, 1)
    return dq, dk, dv
