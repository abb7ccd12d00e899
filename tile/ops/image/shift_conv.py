"""Shift convolution in one kernel: a matmul over channels, each shifted by its own offset.

    out[n, h, w, k] = sum over c of x[n, h + shift_h[c], w + shift_w[c], c] * filters[k, c]

Pixels outside the image are 0. This is the last listing of the paper that introduced Triton (MAPL
2019), with channels last. The shift costs no pass over memory: the left operand of the matmul is
loaded from shifted addresses, by two numbers for each channel.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.division import divisor, quotient
from tile.ops.core.reference import Array
from tile.ops.image.shift_arguments import check_shifts, shifted
from tile.ops.image.shift_conv_dgrad import shift_conv_dgrad
from tile.ops.image.shift_conv_wgrad import shift_conv_wgrad
from tile.ops.image.shift_tables import configuration


@tile.jit(do_not_specialize=("divisors",))
def shift_conv_kernel(
    x_ptr,
    filters_ptr,
    shift_h_ptr,
    shift_w_ptr,
    out_ptr,
    height,
    width,
    divisors,
    pixels,
    filters,
    channels,
    RUN: tl.constexpr,
    EVEN: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # Programs with the same pixels are neighbors.
    tile_row = quotient(tl.program_id(0), divisors[2])
    tile_column = tl.program_id(0) - tile_row * tl.cdiv(filters, BLOCK_N)
    pixel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    # Pixels and columns past the end read the last ones: their results are not stored.
    source = min(pixel, pixels - 1)
    line = quotient(source, divisors[1])  # of all images
    h, w = line - quotient(line, divisors[0]) * height, source - line * width
    base = x_ptr + source.to(tl.int64) * channels
    weights = filters_ptr + min(column, filters - 1).to(tl.int64) * channels
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for start in range(0, channels, BLOCK_K):
        channel = start + tl.arange(0, BLOCK_K)
        exists = EVEN | (channel < channels)
        # A thread loads one shift for a run of channels, and then the run at once.
        head = channel // RUN * RUN
        down = tl.load(shift_h_ptr + head, mask=exists, other=0)
        right = tl.load(shift_w_ptr + head, mask=exists, other=0)
        down, right = down[None, :], right[None, :]
        # One comparison is for both edges: numbers below 0 are large ones without a sign.
        inside = (h + down).to(tl.uint32, bitcast=True) < rows
        inside = inside & ((w + right).to(tl.uint32, bitcast=True) < columns)
        # The address of the pixel, and the offset of the channel and its shift.
        a_tile = base + ((down * width + right) * channels + channel[None, :])
        a = tl.load(a_tile, mask=inside & exists[None, :], other=0.0)
        b = tl.load(weights + channel[:, None], mask=exists[:, None], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
    at = pixel.to(tl.int64) * filters + column
    inside = (pixel < pixels) & (column < filters)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def _gradients(step: Any) -> dict[str, Any]:
    x, filters, *shifts = (step.arguments[n] for n in ("x", "filters", "shift_h", "shift_w"))
    options, dy, gradients = step.options("run", "precision"), step.grads[0], {}
    if "x" in step.needed:
        gradients["x"] = shift_conv_dgrad(dy, filters, *shifts, **options)
    if "filters" in step.needed:
        gradients["filters"] = shift_conv_wgrad(dy, x, *shifts, **options)
    return gradients


@differentiable(_gradients)
@planned()
def shift_conv(
    x: Any,
    filters: Any,
    shift_h: Any,
    shift_w: Any,
    run: int = 1,
    *,
    precision: str = "ieee",
    out: Any = None,
) -> Any:
    """Return the shift convolution, batch x height x width x filters, in the type of `x`.

    x: batch x height x width x channels; filters: filters x channels, of its type; shift_h,
    shift_w: int32, how far each channel is read below and to the right. All are contiguous.
    run: 1, 2, 4, 8 or 16; a promise that the channels are groups of so many with one shift each,
    so that loads are vectors. precision: as in `matmul`.
    """
    call = Call("shift_conv")
    image = call.array("x", x, rank=4).contiguous()
    batches, height, width, channels = image.shape
    weights = call.array("filters", filters, dtypes=(image.dtype,), rank=2)
    count = weights.shape[0]
    call.array("filters", filters, rank=2, shape=(count, channels)).contiguous()
    check_shifts(call, shift_h, shift_w, (height, width), channels, run, precision)
    shape = (batches, height, width, count)
    result = call.output("out", out, shape, image.dtype).contiguous()
    if result.size:
        pixels = batches * height * width
        config = configuration(call, image.dtype, (pixels, count, channels), run, precision)
        columns = tile.cdiv(count, config["BLOCK_N"])
        launch(shift_conv_kernel, (tile.cdiv(pixels, config["BLOCK_M"]) * columns,))(
            *(x, filters, shift_h, shift_w, result.value, height, width),
            *((divisor(height), divisor(width), divisor(columns)), pixels, count, channels),
            RUN=run,
            EVEN=channels > 0 and channels % config["BLOCK_K"] == 0,
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(image.dtype).name),
            **config,
        )
    return result.value


def shift_conv_reference(x: Array, filters: Array, shift_h: Array, shift_w: Array) -> Array:
    """Return the result in float64: whole channels are shifted, then multiplied."""
    result: Array = shifted(x, shift_h, shift_w) @ filters.T
    return result
