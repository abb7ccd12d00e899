"""Attention of sequences of different lengths, which follow each other in one array.

    out[a:b] = attention(q[a:b], k[c:d], v[c:d])
    a, b = q_starts[i], q_starts[i + 1]        c, d = k_starts[i], k_starts[i + 1]

No memory and no work is spent on padding. A program has a block of queries of one head of one
sequence, as in attention_kernel.py; programs past the end of a sequence end at once.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import I32, Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.sequence import attention_gradient_launches as backward
from tile.ops.sequence.attention import attention_reference
from tile.ops.sequence.attention_arguments import check_heads, window_of
from tile.ops.sequence.attention_backward import attention_backward_reference
from tile.ops.sequence.attention_kernel import BY_POINTERS, LOG2_E, attention_kernel


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
    source, key, starts, key_starts = _operands(call, q, k, v, q_starts, k_starts)
    tokens, heads, size = source.shape
    longest = call.integer("longest", longest, low=0)
    longest_keys = call.integer("longest_keys", longest_keys, low=0)
    _check_lengths(starts, tokens, longest)
    _check_lengths(key_starts, key.shape[0], longest_keys)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    for name, array in (("dout", dout), ("result", result)):
        call.array(name, array, dtypes=(source.dtype,), rank=3, shape=source.shape).contiguous()
    sums = accumulator(source.dtype)
    call.array("log_sums", log_sums, dtypes=(sums,), shape=(heads, tokens)).contiguous()
    dq, dk, dv = (call.new(operand.shape, source.dtype).value for operand in (source, key, key))
    delta = call.new((heads, tokens), sums).value
    if source.size:
        backward.launch_delta(result, dout, delta, source.shape, heads)
    if key.size:
        backward.Gradients(
            inputs=(q, k, v, dout, log_sums, delta),
            outputs=(dq, dk, dv),
            bias=(None, None, (0, 0, 0, 0)),
            starts=(q_starts, k_starts),
            q_strides=_strides(source),
            k_strides=_strides(key),
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


def _gradients(step: Any) -> dict[str, Any]:
    arguments, (result, log_sums) = dict(step.arguments), step.results
    q, k, v = (arguments.pop(name) for name in "qkv")
    arguments.pop("log_sums")
    longest_keys = int(arguments["k_starts"].diff().max()) if k.shape[0] else 0
    gradients = varlen_attention_backward(
        *(step.grads[0], q, k, v, result, log_sums), **arguments, longest_keys=longest_keys
    )
    return dict(zip("qkv", gradients, strict=True))


@differentiable(_gradients, recording={"log_sums": True})
@planned()
def varlen_attention(
    q: Any,
    k: Any,
    v: Any,
    q_starts: Any,
    k_starts: Any,
    longest: int,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
    window: int | None = None,
    *,
    out: Any = None,
) -> Any:
    """Return the attention within each sequence, in the type of `q`.

    q: tokens x heads x size; k and v: tokens x key heads x size, where heads is a multiple of key
    heads; all are contiguous. q_starts, k_starts: int32, the first token of each sequence and the
    end of the last. longest: at least the queries of each sequence. causal, scale, window: as in
    `attention`; a query that sees no key has the result 0. With `log_sums` the result is (out, log2
    of the sum of the powers, heads x tokens), which `varlen_attention_backward` takes.
    """
    call = Call("varlen_attention")
    source, key, starts, key_starts = _operands(call, q, k, v, q_starts, k_starts)
    tokens, heads, size = source.shape
    longest = call.integer("longest", longest, low=0)
    _check_lengths(starts, tokens, longest)
    _check_lengths(key_starts, key.shape[0])
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    result = call.output("out", out, source.shape, source.dtype).contiguous()
    sums = accumulator(source.dtype)
    logs = call.new((heads, tokens), sums) if log_sums else None
    if result.size and longest:
        config = BY_POINTERS.select(call.backend, size, source.dtype.itemsize)
        grid = (tile.cdiv(longest, config["BLOCK_M"]), (starts.size - 1) * heads)
        launch(attention_kernel, grid)(
            *(q, k, v, result.value, logs and logs.value, None, None, q_starts, k_starts),
            *(_strides(operand) for operand in (source, key, key, result)),
            *((0, tokens), (0, 0, 0, 0)),
            *(0, heads, key.shape[1], heads // key.shape[1], longest, key.shape[0], window),
            SCALE=scale * LOG2_E,
            SIZE=size,
            CAUSAL=bool(causal),
            SUMS=getattr(tl, sums.name),
            STORED_BLOCK=False,
            DESCRIPTORS=False,
            HEAD=max(16, tile.next_power_of_2(size)),
            **config,
        )
    return (result.value, logs.value) if logs else result.value


def _operands(
    call: Call, q: Any, k: Any, v: Any, q_starts: Any, k_starts: Any
) -> tuple[Operand, Operand, Operand, Operand]:
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


def _check_lengths(starts: Operand, tokens: int, longest: int | None = None) -> None:
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


def _strides(operand: Operand) -> tuple[int, int, int]:
    """Return the strides of a batch, of which there is one, a head, and a row."""
    _, heads, size = operand.shape
    return 0, size, heads * size


def _sequences(starts: Array) -> list[slice]:
    return [slice(a, b) for a, b in itertools.pairwise(starts)]


def varlen_attention_reference(
    q: Array,
    k: Array,
    v: Array,
    q_starts: Array,
    k_starts: Array,
    longest: int,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
    window: int | None = None,
) -> Any:
    """Return the result in float64."""
    result = np.zeros(q.shape)
    logs = np.full(q.shape[1::-1], -np.inf)
    for rows, keys in zip(_sequences(q_starts), _sequences(k_starts), strict=True):
        one, one_k, one_v = (a[None].swapaxes(1, 2) for a in (q[rows], k[keys], v[keys]))
        out, sums = attention_reference(one, one_k, one_v, causal, scale, True, window)
        result[rows] = np.where(np.isneginf(sums)[..., None], 0.0, out)[0].swapaxes(0, 1)
        logs[:, rows] = sums[0]
    return (result, logs) if log_sums else result


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
    for rows, keys in zip(_sequences(q_starts), _sequences(k_starts), strict=True):
        grad, one, one_k, one_v = (
            array[None].swapaxes(1, 2) for array in (dout[rows], q[rows], k[keys], v[keys])
        )
        grads = attention_backward_reference(
            grad, one, one_k, one_v, result, log_sums, causal, scale, window
        )
        for whole, at, part in zip((dq, dk, dv), (rows, keys, keys), grads, strict=True):
            whole[at] = part[0].swapaxes(0, 1)
    return dq, dk, dv
