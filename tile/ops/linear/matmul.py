"""Matrix multiplication of any layout, batched, with bias and activation in the same kernel.

    out = activation(a @ b + bias)

A program computes one tile of the result, iterating over tiles of a and b along the inner axis.
Programs go down `GROUP` tiles before they move to the next column, so that co-resident programs
share operands in the L2 cache. If a result has fewer tiles than the device has multiprocessors, the
inner axis is split: each program adds up a part of it, and a second kernel adds up the parts in a
fixed order, so that results are the same in every run. Stream-K splits all tiles evenly instead.

The gradients are matmuls of transposed views: da = dout @ b.T, db = a.T @ dout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import FLOATS, I8, I32, Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.epilogue import epilogue_of
from tile.ops.core.reference import Array, wide
from tile.ops.linear.configurations import LEAST_INNER, is_streamed, tiles_of
from tile.ops.linear.matmul_tiles import activated, multiply_tiles, store_tile, tile_position
from tile.ops.linear.splits import add_splits, check_splits, splits_of
from tile.ops.linear.stream_k import stream_matmul
from tile.ops.pointwise.activation import activation_gradient

INT32_LIMIT = 2**31


@tile.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K,
    a_batch,
    a_row,
    a_inner,
    b_batch,
    b_inner,
    b_column,
    out_split,
    out_batch,
    out_row,
    out_column,
    span,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SPLIT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    batch = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2).to(tl.int64)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    # Rows and columns past the end read others again: their results are not stored, and loads
    # need a mask along the inner axis only.
    a_rows, b_columns = (row % M)[:, None], (column % N)[None, :]
    if WIDE:
        a_rows, b_columns = a_rows.to(tl.int64), b_columns.to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    first = tl.program_id(2) * span if SPLIT else 0
    tl.assume(first >= 0)
    a_tile = a_ptr + batch * a_batch + tl.cast(first, tl.int64) * a_inner
    b_tile = b_ptr + batch * b_batch + tl.cast(first, tl.int64) * b_inner
    a_tile += a_rows * a_row + inner[None, :] * a_inner
    b_tile += inner[:, None] * b_inner + b_columns * b_column
    if EVEN:  # no mask compares with K
        first, end = 0, span
    else:
        end = min(first + span, K) if SPLIT else K
    total = multiply_tiles(
        *(a_tile, b_tile, inner, first, end, K, a_inner, b_inner),
        *(tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS), PRECISION, SUMS, EVEN, BLOCK_K),
    )
    total = activated(total, bias_ptr, column, N, ACTIVATION)
    out = out_ptr + split * out_split + batch * out_batch
    store_tile(total, out, row, column, M, N, out_row, out_column)


def _gradients(step: Any) -> dict[str, Any]:
    a, b = step.arguments["a"], step.arguments["b"]
    options, grad, gradients = step.options("precision"), step.grads[0], {}
    bias, activation = step.arguments.get("bias"), step.arguments.get("activation")
    grad = activation_gradient(
        activation, grad, step.results[0], lambda: matmul(a, b, bias, **options)
    )
    if "a" in step.needed:
        da = matmul(grad, b.mT, **options)
        gradients["a"] = da.sum(0) if da.dim() > a.dim() else da
    if "b" in step.needed:
        db = matmul(a.mT, grad, **options)
        gradients["b"] = db.sum(0) if db.dim() > b.dim() else db
    if "bias" in step.needed:
        gradients["bias"] = channel_sums(grad, -1)
    return gradients


@differentiable(_gradients)
@planned()
def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: str | None = None,
    *,
    precision: str = "ieee",
    splits: int | str | None = None,
    out: Any = None,
) -> Any:
    """Return activation(a @ b + bias), in the type of `a`; int8 operands give int32.

    a: M x K, or batch x M x K; b: K x N, or batch x K x N, of the type of `a`; any strides. An
    operand without a batch is the same for all. bias: N elements of any float type. activation:
    a function of `activate`. precision: of float32 operands, as `input_precision` of `tl.dot`.
    splits: parts of the inner axis; None chooses by shape; "stream" lets programs share all tiles
    evenly (stream_k.py), which few shapes choose.
    """
    call = Call("matmul")
    left = call.array("a", a, dtypes=(*FLOATS, I8), rank=_rank(a))
    right = call.array("b", b, dtypes=(left.dtype,), rank=_rank(b))
    batches, m, n, k = _sizes(left, right)
    function = epilogue_of(call, n, bias, precision, activation)
    if left.dtype == I8 and not (bias is None and activation is None):
        raise ArgumentValueError("matmul: int8 operands have no `bias` and no `activation`")
    stream = isinstance(splits, str) or (
        splits is None and batches == 1 and is_streamed(call.backend, left.dtype, m, n, k)
    )
    if isinstance(splits, str):
        if splits != "stream":
            raise ArgumentValueError(
                f"matmul: `splits` is {splits!r}; it must be None, 1 or more, or 'stream'"
            )
        splits = None
    check_splits(call, splits)
    sums = I32 if left.dtype == I8 else accumulator(left.dtype)
    shape = (batches, m, n) if len(left.shape) + len(right.shape) > 4 else (m, n)
    result = call.output("out", out, shape, I32 if left.dtype == I8 else left.dtype)
    if not result.size:
        return result.value
    config = tiles_of(call.backend, left.dtype, m, n, k, precision)
    wide_offsets = max(_reach(left), _reach(right)) >= INT32_LIMIT
    if stream and k:
        stream_matmul(
            *(call, (a, b, bias), result, (batches, m, n, k)),
            *((_matrix(left), _matrix(right), _matrix(result)), sums, config, function),
            PRECISION=precision,
            WIDE=wide_offsets,
        )
        return result.value
    tiles = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    least = tile.cdiv(LEAST_INNER, config["BLOCK_K"])
    splits = splits_of(call, splits, tiles * batches, steps, least)
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    even = 0 < k == splits * span
    parts = call.new((splits, batches * m, n), sums) if splits > 1 else result
    launch(matmul_kernel, (tiles, batches, splits))(
        *(a, b, None if splits > 1 else bias, parts.value, m, n, k),
        *(*_matrix(left), *_matrix(right), batches * m * n),
        *(_matrix(parts) if splits == 1 else (m * n, n, 1)),
        max(span, 1),
        ACTIVATION=None if splits > 1 else function,
        PRECISION=precision,
        SUMS=getattr(tl, sums.name),
        SPLIT=splits > 1,
        EVEN=even,
        WIDE=wide_offsets,
        **config,
    )
    if splits > 1:
        add_splits(call, parts, result.value, _matrix(result), batches, bias, function)
    return result.value


def _rank(value: Any) -> int:
    return 3 if len(getattr(value, "shape", ())) == 3 else 2


def _sizes(a: Operand, b: Operand) -> tuple[int, int, int, int]:
    """Return batches, M, N and K; raise `ArgumentValueError` if the shapes do not fit."""
    (m, k), (inner, n) = a.shape[-2:], b.shape[-2:]
    batches = {operand.shape[0] for operand in (a, b) if len(operand.shape) == 3} or {1}
    if k != inner or len(batches) > 1:
        raise ArgumentValueError(
            f"matmul: `a` has shape {a.shape} and `b` {b.shape}; they must be M x K and K x N, "
            "each with an equal batch axis in front or without one"
        )
    return batches.pop(), m, n, k


def _matrix(operand: Operand) -> tuple[int, int, int]:
    """Return the strides of batch, row and column; a matrix without a batch has 0 for it."""
    return (*((0,) * (3 - len(operand.shape))), *operand.strides)[-3:]  # type: ignore[return-value]


def _reach(operand: Operand) -> int:
    """Return the distance of the last element of a matrix from its first, in elements."""
    return sum(
        (n - 1) * abs(s) for n, s in zip(operand.shape[-2:], operand.strides[-2:], strict=True)
    )


def matmul_reference(a: Array, b: Array, bias: Array | None, activation: str | None) -> Array:
    """Return the result in float64, whatever `precision` and `splits` are."""
    a, b = wide(a, b)
    result: Array = a @ b + (0 if bias is None else bias.astype(np.float64))
    return result if activation is None else ACTIVATIONS[activation].reference(result)
