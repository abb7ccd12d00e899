"""The gradients of attention, from the scores computed anew (Dao et al., arXiv:2205.14135).

    p = softmax(q @ k.T * scale + bias)   dv = p.T @ dout        dp = dout @ v.T
    ds = p * (dp - delta) * scale         dq = ds @ k            dk = ds.T @ q
    delta = sum over features of dout * out, a number for each query

The forward pass leaves a number for each query, log_sum, from which p = 2 ** (scores - log_sum).
attention_gradients.py has the kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
from tile.ops.core.call import F32, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.new_arrays import Shape
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.sequence.attention_arguments import (
    check_shapes,
    scores_of,
    strides_of_bias,
    window_of,
)
from tile.ops.sequence.attention_gradients import (
    delta_kernel,
    gradient_kv_kernel,
    gradient_q_kernel,
)
from tile.ops.sequence.attention_kernel import LOG2_E

# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured: their tiles avoid spills.
TABLE = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (128, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)

DELTA_ROWS = 16  # of a program


@dataclass(frozen=True)
class Gradients:
    """One backward pass: the arrays, and the layout of their rows.

    inputs: q, k, v, dout, log_sums and delta. q_strides, k_strides: of a batch, a head and a row,
    of q and dout, and of k and v; log_strides: of a batch and a head. starts: `q_starts` and
    `k_starts` of sequences of different lengths.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, Any, Any]
    bias: tuple[Any, Any, tuple[int, ...]]  # with the slopes
    starts: tuple[Any, Any]
    q_strides: tuple[int, int, int]
    k_strides: tuple[int, int, int]
    log_strides: tuple[int, int]
    batches: int
    heads: int
    key_heads: int
    queries: int
    keys: int

    def launch(
        self,
        config: Configuration,
        size: int,
        scale: float,
        causal: bool,
        window: int | None,
    ) -> None:
        """Write dq, dk and dv."""
        options = {
            "SCALE": scale,
            "LOG2_SCALE": scale * LOG2_E,
            "CAUSAL": bool(causal),
            "HEAD": max(16, tile.next_power_of_2(size)),
            **config,
        }
        layout = (*self.bias, *self.starts, self.q_strides, self.k_strides, self.log_strides)
        group = self.heads // self.key_heads
        sizes = (group, self.queries, self.keys, size, window)
        dq, dk, dv = self.outputs
        blocks = tile.cdiv(self.keys, config["BLOCK_N"])
        if blocks:
            launch(gradient_kv_kernel, (blocks, self.batches * self.key_heads))(
                *(*self.inputs, dk, dv, *layout, self.key_heads, *sizes), **options
            )
        blocks = tile.cdiv(self.queries, config["BLOCK_M"])
        if blocks:
            launch(gradient_q_kernel, (blocks, self.batches * self.heads))(
                *(*self.inputs, dq, *layout, self.heads, *sizes), **options
            )


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
) -> tuple[Any, Any, Any]:
    """Return the gradients of q, k and v from `dout`, that of the result.

    result, log_sums: both results of `attention(q, k, v, causal, scale, True, window, bias,
    slopes)`. These arrays are contiguous.
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
    for name, array in (("dout", dout), ("result", result)):
        call.array(name, array, dtypes=(source.dtype,), rank=4, shape=source.shape).contiguous()
    sums = accumulator(source.dtype)
    shape = (batches, heads, queries)
    call.array("log_sums", log_sums, dtypes=(sums,), rank=3, shape=shape).contiguous()
    dq, dk, dv = (call.new(operand.shape, source.dtype).value for operand in (source, key, value))
    if not key.size:
        return dq, dk, dv
    delta = call.new(shape, sums).value
    if source.size:
        launch_delta(result, dout, delta, source.shape, 1)
    Gradients(
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
    ).launch(TABLE.select(call.backend, size, source.dtype.itemsize), size, scale, causal, window)
    return dq, dk, dv


def launch_delta(result: Any, dout: Any, delta: Any, shape: Shape, heads: int) -> None:
    """Write delta, as `delta_kernel` does."""
    *rows, size = shape
    count = math.prod(rows)
    launch(delta_kernel, (tile.cdiv(count, DELTA_ROWS),))(
        *(result, dout, delta, count, size, heads, count // heads),
        ROWS=DELTA_ROWS,
        HEAD=max(16, tile.next_power_of_2(size)),
    )


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
) -> tuple[Array, Array, Array]:
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
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    heads = (*k.shape[:2], group, *k.shape[2:])
    dk = (ds.swapaxes(-1, -2) @ q).reshape(heads).sum(axis=2)
    dv = (p.swapaxes(-1, -2) @ dout).reshape(heads).sum(axis=2)
    return ds @ many_k, dk, dv
