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
from tile.ops.core.autograd import differentiable
from tile.ops.core.batched_grid import batched_grid, persistent_programs
from tile.ops.core.call import F32, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.new_arrays import Shape
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import Configuration
from tile.ops.sequence.attention_arguments import (
    check_shapes,
    scores_of,
    strides_of_bias,
    window_of,
)
from tile.ops.sequence.attention_backward import attention_backward
from tile.ops.sequence.attention_kernel import attention_kernel
from tile.ops.sequence.attention_loop import LOG2_E
from tile.ops.sequence.attention_parts import KEYS_OF_QUERY, add_parts, at_once, parts_of
from tile.ops.sequence.attention_tables import (
    BY_DESCRIPTORS,
    BY_FEW_BLOCKS,
    BY_FEW_QUERIES,
    BY_FIRST_MAXIMUM,
    BY_POINTERS,
    BY_SEVERAL_BLOCKS,
    FEW_QUERIES,
)
from tile.ops.sequence.decode_launches import launch_by_keys


def _gradients(step: Any) -> dict[str, Any]:
    arguments, (result, log_sums) = dict(step.arguments), step.results
    q, k, v = (arguments.pop(name).contiguous() for name in "qkv")
    arguments.pop("log_sums")
    names, options = [*"qkv"], {"deterministic": step.deterministic}
    if {"bias", "slopes"} & step.needed:
        names += [name for name in ("bias", "slopes") if arguments.get(name) is not None]
        options["bias_gradients"] = True
    gradients = attention_backward(step.grads[0], q, k, v, result, log_sums, **arguments, **options)
    return dict(zip(names, gradients, strict=True))


@differentiable(_gradients, recording={"log_sums": True}, reads=(0, 1))
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
    plain = window is None and bias is None and slopes is None
    contiguous = source.is_contiguous and result.is_contiguous
    if plain and logs is None and contiguous and queries == 1 and result.size and keys:
        counts = batches, heads, key.shape[1], keys
        launch_by_keys(call, (q, key, value), None, None, result.value, counts, scale, (0, keys))
    elif result.size:
        described = call.describes(key, value)
        shape = batches * heads, queries, keys, size, source.dtype.itemsize
        whole = plain and scale > 0 and keys < KEYS_OF_QUERY * queries
        config = _tiles(call.backend, shape, bool(causal), bias is not None, described, whole)
        sizes = *shape[3:], int(causal), int(bias is not None), keys
        several = BY_SEVERAL_BLOCKS.select(call.backend, *sizes) if described else {}
        grid: tuple[int, ...]
        order: dict[str, int] = {}
        parts, span, values, part_logs = 1, None, result, logs
        suits = not config.get("FIRST_MAXIMUM") and call.describes(source)
        if suits and _suits(several, queries, batches * heads, causal):
            blocks = tile.cdiv(queries, several["BLOCK_M"]) // (2 if causal else 1)
            config = several
            grid = (persistent_programs(batches * heads * blocks, several["PROGRAMS"]),)
        else:
            blocks = tile.cdiv(queries, config["BLOCK_M"])
            if described and contiguous:
                parts = parts_of(call.backend, blocks * batches * heads, shape, config)
            if parts > 1:
                span = tile.cdiv(tile.cdiv(keys, parts), config["BLOCK_N"]) * config["BLOCK_N"]
                values = call.new((parts * batches, heads, queries, size), sums)
                part_logs = call.new((parts * batches, heads, queries), sums)
            reread = 2 * keys * size * source.dtype.itemsize * key.shape[1] // heads
            grid, order = batched_grid(blocks, parts * batches * heads, reread if causal else None)
        launch(attention_kernel, grid)(
            *(q, k, v, values.value, part_logs and part_logs.value, bias, slopes, None, None),
            *(operand.strides[:3] for operand in (source, key, value, values)),
            *((heads * queries, queries), bias_strides),
            *(batches, heads, key.shape[1], heads // key.shape[1], queries, keys, span, window),
            SCALE=scale * LOG2_E,
            SIZE=size,
            CAUSAL=bool(causal),
            SUMS=getattr(tl, sums.name),
            DESCRIPTORS=described,
            STORED_BLOCK=described and parts == 1 and call.describes(result),
            HEAD=max(16, tile.next_power_of_2(size)),
            RAGGED=bool(keys % config["BLOCK_N"]),
            **order,
            **config,
        )
        if part_logs is not None and parts > 1:
            add_parts(values, part_logs, result.value, logs and logs.value, parts, size)
    return (result.value, logs.value) if logs else result.value


def _tiles(
    backend: str, shape: Shape, causal: bool, biased: bool, described: bool, whole: bool
) -> Configuration:
    """Return the configuration of programs that take one block each.

    shape: heads of all batches, queries, keys, size of a head and bytes of an element. whole: no
    part of the keys, window, bias or slope, and a positive scale.
    """
    heads, queries, keys, size, width = shape
    if not described:
        return BY_POINTERS.select(backend, size, width)
    if queries <= FEW_QUERIES:
        return BY_FEW_QUERIES.select(backend, size, width)
    config = BY_DESCRIPTORS.select(backend, size, width, int(causal), int(biased), keys)
    few = BY_FEW_BLOCKS.select(backend, size, width)
    programs = heads * tile.cdiv(queries, config["BLOCK_M"])
    if few and causal and programs < at_once(backend, shape, config):
        return few
    first = BY_FIRST_MAXIMUM.select(backend, size, width, int(causal), keys) if whole else {}
    return first or config


def _suits(config: Configuration, queries: int, heads: int, causal: bool) -> bool:
    """Return True if programs that take several blocks of queries have as much to do, nearly.

    Causal ones take pairs of blocks. A single block has at least half of its rows.
    """
    if not config or 2 * queries <= config["BLOCK_M"]:
        return False
    blocks, pairs = tile.cdiv(queries, config["BLOCK_M"]), 2 if causal else 1
    units, programs = heads * blocks // pairs, config["PROGRAMS"]
    return blocks % pairs == 0 and 10 * units >= 9 * tile.cdiv(units, programs) * programs


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
