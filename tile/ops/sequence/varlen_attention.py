"""Attention of sequences of different lengths, which follow each other in one array.

    out[a:b] = attention(q[a:b], k[c:d], v[c:d])
    a, b = q_starts[i], q_starts[i + 1]        c, d = k_starts[i], k_starts[i + 1]

No memory and no work is spent on padding. A program has a block of queries of one head of one
sequence, as in attention_kernel.py; programs past the end of a sequence end at once. Keys and
values are loaded by descriptors where TMA can, in blocks that end with their sequence. For long
sequences, programs have several blocks (varlen_kernel.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.batched_grid import batched_grid
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.tables import Configuration
from tile.ops.sequence.attention import attention_reference
from tile.ops.sequence.attention_arguments import window_of
from tile.ops.sequence.attention_kernel import attention_kernel
from tile.ops.sequence.attention_loop import LOG2_E
from tile.ops.sequence.attention_tables import BY_POINTERS
from tile.ops.sequence.varlen_arguments import (
    check_lengths,
    sequences_of,
    strides_of,
    varlen_operands,
)
from tile.ops.sequence.varlen_attention_backward import varlen_attention_backward
from tile.ops.sequence.varlen_kernel import varlen_kernel
from tile.ops.sequence.varlen_tables import BY_DESCRIPTORS, BY_FIRST_MAXIMUM, BY_SEVERAL_BLOCKS


def _gradients(step: Any) -> dict[str, Any]:
    arguments, (result, log_sums) = dict(step.arguments), step.results
    q, k, v = (arguments.pop(name) for name in "qkv")
    arguments.pop("log_sums")
    longest_keys = int(arguments["k_starts"].diff().max()) if k.shape[0] else 0
    gradients = varlen_attention_backward(
        *(step.grads[0], q, k, v, result, log_sums), **arguments, longest_keys=longest_keys
    )
    return dict(zip("qkv", gradients, strict=True))


@differentiable(_gradients, recording={"log_sums": True}, reads=(0, 1))
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
    source, key, starts, key_starts = varlen_operands(call, q, k, v, q_starts, k_starts)
    tokens, heads, size = source.shape
    longest = call.integer("longest", longest, low=0)
    check_lengths(starts, tokens, longest)
    check_lengths(key_starts, key.shape[0])
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    window = window_of(call, window)
    result = call.output("out", out, source.shape, source.dtype).contiguous()
    sums = accumulator(source.dtype)
    logs = call.new((heads, tokens), sums) if log_sums else None
    described, width = call.describes(key, call.operands[2]), source.dtype.itemsize
    config: Configuration = {}
    if described and window is None and scale > 0:
        config = BY_FIRST_MAXIMUM.select(call.backend, size, width, int(causal), longest)
    several = {} if config else _several(call, source, result, starts.size - 1, longest)
    if result.size and longest and several:
        launch(varlen_kernel, (several["PROGRAMS"],))(
            *(q, k, v, result.value, logs and logs.value, q_starts, k_starts, starts.size - 1),
            *(heads, key.shape[1], longest, tokens, key.shape[0], window),
            SCALE=scale * LOG2_E,
            SIZE=size,
            HEAD=tile.next_power_of_2(size),
            CAUSAL=bool(causal),
            **several,
        )
    elif result.size and longest:
        if not described:
            config = BY_POINTERS.select(call.backend, size, width)
        elif not config:
            config = BY_DESCRIPTORS.select(call.backend, size, width, int(causal), longest)
        blocks = tile.cdiv(longest, config["BLOCK_M"])
        reread = 2 * longest * size * width * key.shape[1] // heads
        grid, order = batched_grid(blocks, (starts.size - 1) * heads, reread if causal else None)
        launch(attention_kernel, grid)(
            *(q, k, v, result.value, logs and logs.value, None, None, q_starts, k_starts),
            *(strides_of(operand) for operand in (source, key, key, result)),
            *((0, tokens), (0, 0, 0, 0)),
            *(1, heads, key.shape[1], heads // key.shape[1], longest, key.shape[0], None, window),
            SCALE=scale * LOG2_E,
            SIZE=size,
            CAUSAL=bool(causal),
            SUMS=getattr(tl, sums.name),
            STORED_BLOCK=False,
            DESCRIPTORS=described,
            HEAD=max(16, tile.next_power_of_2(size)),
            **order,
            **config,
        )
    return (result.value, logs.value) if logs else result.value


def _several(
    call: Call, source: Operand, result: Operand, sequences: int, longest: int
) -> Configuration:
    """Return the configuration of programs that take several blocks, or an empty one.

    They are as fast only if each has a block, and not too many sequences to look at.
    """
    tokens, heads, size = source.shape
    config = dict(BY_SEVERAL_BLOCKS.select(call.backend, size, source.dtype.itemsize, longest))
    if not config:
        return {}
    each = tokens * heads / (config["PROGRAMS"] * config["BLOCK_M"])  # blocks of a program
    if each < 1 or 1.1 * each * config.pop("SEQUENCES") < sequences:
        return {}
    return config if call.describes(*call.operands[:3], result) else {}


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
    for rows, keys in zip(sequences_of(q_starts), sequences_of(k_starts), strict=True):
        one, one_k, one_v = (a[None].swapaxes(1, 2) for a in (q[rows], k[keys], v[keys]))
        out, sums = attention_reference(one, one_k, one_v, causal, scale, True, window)
        result[rows] = np.where(np.isneginf(sums)[..., None], 0.0, out)[0].swapaxes(0, 1)
        logs[:, rows] = sums[0]
    return (result, logs) if log_sums else result
