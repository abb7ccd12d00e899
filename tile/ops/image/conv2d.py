"""Convolution of images with channels last, as a matmul whose left operand is never stored.

    out[n, p, q, k] = sum over r, s, c of x[n, p * stride - padding + r * dilation, ..., c]
                      * filters[k, r, s, c]

Rows of the matmul are the pixels (n, p, q) of the result, columns are filters, and the inner axis
is (r, s, c). A program computes the addresses of its pixels once; an iteration adds the offset of
its r, s and c, and masks pixels in the padding. If the channels fill whole iterations, r and s are
scalars there; otherwise, as for an image of 3 channels, they differ along the inner axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.call import Call, accumulator
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table
from tile.ops.image.windows import pair, window_counts
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul import tile_position

# By pixels, filters and the inner axis. Not measured: few pixels take small tiles, so that there
# are as many programs as multiprocessors, and a short inner axis takes a short iteration.
TABLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (1024, ANY, ANY): tiles(64, 64, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, ANY, ANY): tiles(128, 128, 64, warps=8),
        }
    },
)


@tile.jit
def conv2d_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    x_strides,
    out_strides,
    sizes,
    pixels,
    filters,
    stride,
    padding,
    dilation,
    S: tl.constexpr,
    CHANNELS: tl.constexpr,
    INNER: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(pixels, filters, BLOCK_M, BLOCK_N, GROUP)
    height, width, out_height, out_width = sizes
    pixel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inner = tl.arange(0, BLOCK_K)
    n = (pixel // (out_height * out_width)).to(tl.int64)
    p, q = pixel // out_width % out_height, pixel % out_width
    # The pixel under the first element of the window, which may be in the padding.
    top, left = p * stride[0] - padding[0], q * stride[1] - padding[1]
    origin = x_ptr + n * x_strides[0] + top.to(tl.int64) * x_strides[1]
    origin += left.to(tl.int64) * x_strides[2]
    weights = filters_ptr + column.to(tl.int64) * INNER + inner[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for k in range(0, INNER, BLOCK_K):
        if CHANNELS % BLOCK_K == 0:  # a scalar position in the window
            position = k // CHANNELS
            channel = k % CHANNELS + inner[None, :]
        else:
            position = (k + inner[None, :]) // CHANNELS
            channel = (k + inner[None, :]) % CHANNELS
        down, right = position // S * dilation[0], position % S * dilation[1]
        # One address a pixel, and one 32-bit offset for each element along the inner axis.
        offset = down * x_strides[1] + right * x_strides[2] + channel * x_strides[3]
        h, w = top + down, left + right
        inside = (h >= 0) & (h < height) & (w >= 0) & (w < width) & (pixel < pixels)
        if INNER % BLOCK_K != 0:
            inside = inside & (k + inner < INNER)[None, :]
        a = tl.load(origin + offset, mask=inside, other=0.0)
        b_inside = (k + inner < INNER)[:, None] & (column < filters)
        b = tl.load(weights + k, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < filters, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2]
    at += column * out_strides[3]
    inside = (pixel < pixels) & (column < filters)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def conv2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    activation: str | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    *,
    precision: str = "ieee",
    out: Any = None,
) -> Any:
    """Return activation(convolution of `x` with `filters` + bias), in the type of `x`.

    x: batch x height x width x channels, of any strides; filters: filters x R x S x channels, of
    its type, contiguous. The result is batch x P x Q x filters. A batch x channels x height x width
    array is `x.transpose(0, 2, 3, 1)`. bias: one element for each filter. stride, padding,
    dilation: of height and width, or of both. activation, precision: as in `matmul`.
    """
    call = Call("conv2d")
    image = call.array("x", x, rank=4)
    weights = call.array("filters", filters, dtypes=(image.dtype,), rank=4).contiguous()
    (batches, height, width, channels), (count, r, s, depth) = image.shape, weights.shape
    if depth != channels:
        raise ArgumentValueError(
            f"conv2d: `x` has {channels} channels and `filters` {depth}; x is batch x height x "
            "width x channels, and filters are filters x R x S x channels"
        )
    if bias is not None:
        call.array("bias", bias, rank=1, shape=(count,)).contiguous()
    if activation is not None:
        call.choice("activation", activation, tuple(ACTIVATIONS))
    call.choice("precision", precision, ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"))
    steps = pair(call, "stride", stride, 1)
    edges, apart = pair(call, "padding", padding, 0), pair(call, "dilation", dilation, 1)
    p, q = window_counts(call, (height, width), (r, s), steps, edges, apart)
    result = call.output("out", out, (batches, p, q, count), image.dtype)
    if result.size:
        pixels, inner = batches * p * q, r * s * channels
        config = TABLE.select(call.backend, pixels, count, inner)
        rows, columns = tile.cdiv(pixels, config["BLOCK_M"]), tile.cdiv(count, config["BLOCK_N"])
        conv2d_kernel[(rows * columns,)](
            *(x, filters, bias, result.value, image.strides, result.strides),
            *((height, width, p, q), pixels, count, steps, edges, apart),
            S=s,
            CHANNELS=max(1, channels),
            INNER=inner,
            ACTIVATION=None if activation is None else ACTIVATIONS[activation].function,
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(image.dtype).name),
            **config,
        )
    return result.value


def conv2d_reference(
    x: Array,
    filters: Array,
    bias: Array | None = None,
    activation: str | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    precision: str = "ieee",
) -> Array:
    """Return the result in float64: a sum over the positions of the window."""
    call = Call("conv2d")
    x, filters = wide(x, filters)
    (dh, dw), (ph, pw) = pair(call, "stride", stride, 1), pair(call, "padding", padding, 0)
    apart = pair(call, "dilation", dilation, 1)
    _, r, s, _ = filters.shape
    p, q = window_counts(call, x.shape[1:3], (r, s), (dh, dw), (ph, pw), apart)
    padded = np.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)))
    out = np.zeros((len(x), p, q, len(filters)))
    for i, j in np.ndindex(r, s):
        top, left = i * apart[0], j * apart[1]
        part = padded[:, top : top + (p - 1) * dh + 1 : dh, left : left + (q - 1) * dw + 1 : dw]
        out += part @ filters[:, i, j].T
    out += 0 if bias is None else bias.astype(np.float64)
    return out if activation is None else ACTIVATIONS[activation].reference(out)
