"""Matrix multiplication of any layout, batched, with bias and activation in the same kernel.

    out = activation(a @ b + bias)

A program computes one tile of the result, iterating over tiles of a and b along the inner axis.
Programs go down `GROUP` tiles before they move to the next column, so that co-resident programs
share operands in the L2 cache. If a result has fewer tiles than the device has multiprocessors, the
inner axis is split: each program adds up a part of it, and a second kernel adds up the parts in a
fixed order, so that results are the same in every run. Stream-K splits all tiles evenly instead.
A result of few rows may be computed as its transpose, b.T @ a.T (few_tiles.py), and operands whose
rows TMA cannot load may be copied first (aligned_rows.py). A vector has no dot (matvec.py).

The gradients are matmuls of transposed views: da = dout @ b.T, db = a.T @ dout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import FLOATS, I8, I32, Call, Operand
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import epilogue_of
from tile.ops.core.reference import Array, wide
from tile.ops.linear.aligned_rows import aligned_operands
from tile.ops.linear.configurations import is_streamed, tiles_of
from tile.ops.linear.few_tiles import few_tiles
from tile.ops.linear.matvec import is_matvec
from tile.ops.linear.splits import check_splits
from tile.ops.linear.stream_k import stream_matmul
from tile.ops.linear.strided import Strided, reaches_far
from tile.ops.linear.strided_matmul import strided_matmul, sums_of
from tile.ops.pointwise.activation import activation_gradient, read_results


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


@differentiable(_gradients, reads=read_results)
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
    sizes = batches, m, n, k
    one, other = (Strided(operand.value, _matrix(operand)) for operand in (left, right))
    if isinstance(splits, str):
        if splits != "stream":
            raise ArgumentValueError(
                f"matmul: `splits` is {splits!r}; it must be None, 1 or more, or 'stream'"
            )
    else:
        check_splits(call, splits)
    shape = (batches, m, n) if len(left.shape) + len(right.shape) > 4 else (m, n)
    result = call.output("out", out, shape, I32 if left.dtype == I8 else left.dtype)
    if not result.size:
        return result.value
    out_matrix = Strided(result.value, _matrix(result))
    one, other = aligned_operands(call, left.dtype, one, other, sizes)
    stream = isinstance(splits, str) or (
        splits is None
        and batches == 1
        and not is_matvec(left.dtype, one, other, sizes)
        and few_tiles(call.backend, left.dtype, one.strides, other.strides, sizes) is None
        and is_streamed(call.backend, left.dtype, m, n, k)
    )
    if stream and k:
        stream_matmul(
            *(call, (one.value, other.value, bias), result, sizes),
            (one.strides, other.strides, out_matrix.strides),
            *(sums_of(left.dtype), tiles_of(call.backend, left.dtype, m, n, k, precision)),
            function,
            PRECISION=precision,
            WIDE=reaches_far(one, other, sizes),
        )
    else:
        strided_matmul(
            *(call, one, other, out_matrix, sizes, left.dtype),
            bias=bias,
            function=function,
            precision=precision,
            splits=splits if isinstance(splits, int) else None,
        )
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


def matmul_reference(a: Array, b: Array, bias: Array | None, activation: str | None) -> Array:
    """Return the result in float64, whatever `precision` and `splits` are."""
    a, b = wide(a, b)
    result: Array = a @ b + (0 if bias is None else bias.astype(np.float64))
    return result if activation is None else ACTIVATIONS[activation].reference(result)
