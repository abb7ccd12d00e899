"""Rotary encoding of positions (Su et al., arXiv:2104.09864), forward and backward.

    y[a] = x[a] * cos - x[b] * sin        y[b] = x[b] * cos + x[a] * sin

Each pair (a, b) of features is rotated by an angle that depends on the position. Pairs are the
features i and i + size / 2 (GPT-NeoX, Llama), or 2 i and 2 i + 1 (GPT-J) with `interleaved`. A
program rotates all heads of a token, which share the angles. The gradient of a rotation is the
rotation by the opposite angle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide


@tile.jit
def rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    y_ptr,
    tokens,
    heads,
    x_strides,
    y_strides,
    INVERSE: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    batch, token = tl.program_id(0) // tokens, tl.program_id(0) % tokens
    pair = tl.arange(0, BLOCK_D)
    head = tl.arange(0, BLOCK_H)[:, None]
    angle = token.to(tl.int64) * HALF + pair
    cos = widen(tl.load(cos_ptr + angle, mask=pair < HALF, other=0.0))[None, :]
    sin = widen(tl.load(sin_ptr + angle, mask=pair < HALF, other=0.0))[None, :]
    if INVERSE:
        sin = -sin
    first = pair * 2 if INTERLEAVED else pair
    apart: tl.constexpr = 1 if INTERLEAVED else HALF
    inside = (head < heads) & (pair < HALF)[None, :]
    x_ptr += batch.to(tl.int64) * x_strides[0] + token.to(tl.int64) * x_strides[1]
    y_ptr += batch.to(tl.int64) * y_strides[0] + token.to(tl.int64) * y_strides[1]
    x_pair = x_ptr + head * x_strides[2] + first[None, :]
    y_pair = y_ptr + head * y_strides[2] + first[None, :]
    a = widen(tl.load(x_pair, mask=inside, other=0.0))
    b = widen(tl.load(x_pair + apart, mask=inside, other=0.0))
    tl.store(y_pair, a * cos - b * sin, mask=inside)
    tl.store(y_pair + apart, b * cos + a * sin, mask=inside)


def _gradients(step: Any) -> dict[str, Any]:
    inverse = not step.arguments.get("inverse", False)
    options = step.options("cos", "sin", "interleaved")
    return {"x": rope(step.grads[0], **options, inverse=inverse)}


@differentiable(_gradients)
@planned()
def rope(
    x: Any, cos: Any, sin: Any, interleaved: bool = False, inverse: bool = False, *, out: Any = None
) -> Any:
    """Return `x` rotated by the angles of its positions, or by the opposite ones if `inverse`.

    x: batch x tokens x heads x size, where size is even and its axis contiguous; `x.swapaxes(1, 2)`
    is that of batch x heads x tokens x size. cos, sin: tokens x size / 2, of any float type.
    interleaved: pairs are adjacent features. The gradient is `rope(dy, cos, sin, interleaved,
    inverse=True)`. `out` may be `x` itself.
    """
    call = Call("rope")
    source = call.array("x", x, rank=4).last_contiguous()
    batches, tokens, heads, size = source.shape
    if size % 2:
        raise ArgumentValueError(f"rope: `x` has shape {source.shape}; its last axis must be even")
    for name, array in (("cos", cos), ("sin", sin)):
        call.array(name, array, rank=2, shape=(tokens, size // 2)).contiguous()
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    result.last_contiguous()
    if result.size:
        launch(rope_kernel, (batches * tokens,))(
            *(x, cos, sin, result.value, tokens, heads, source.strides[:3], result.strides[:3]),
            INVERSE=bool(inverse),
            INTERLEAVED=bool(interleaved),
            HALF=size // 2,
            BLOCK_H=tile.next_power_of_2(heads),
            BLOCK_D=tile.next_power_of_2(size // 2),
        )
    return result.value


def rope_reference(x: Array, cos: Array, sin: Array, interleaved: bool, inverse: bool) -> Array:
    """Return the result in float64."""
    x, cos, sin = wide(x, cos[:, None], sin[:, None])
    sin = -sin if inverse else sin
    half = x.shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if interleaved
        else (slice(0, half), slice(half, None))
    )
    y = np.empty_like(x)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y
