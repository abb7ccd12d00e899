"""Shift convolution in one kernel: a matmul over channels, each shifted by its own offset.

    out[n, h, w, k] = sum over c of x[n, h + shift_h[c], w + shift_w[c], c] * filters[k, c]

Pixels outside the image are 0. This is the last listing of the paper that introduced Triton (MAPL
2019), with channels last. The shift costs no pass over memory: pixels are loaded from shifted
addresses, by two numbers for each channel. The instructions that compute these are the cost of it,
so that TMA loads the filters, and tiles of few pixels have filters as rows, of which a wgmma takes
no fewer than 64.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.division import divisor
from tile.ops.core.reference import Array
from tile.ops.image.shift_arguments import check_shifts, shifted
from tile.ops.image.shift_conv_dgrad import shift_conv_dgrad
from tile.ops.image.shift_conv_wgrad import shift_conv_wgrad
from tile.ops.image.shift_kernel import shift_conv_kernel
from tile.ops.image.shift_tables import configuration

MOST = 1 << 29  # elements of an image whose shifted offsets have 32 bits


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
        sizes = pixels, count, channels
        config = configuration(call, weights, result, sizes, run, precision)
        columns = tile.cdiv(count, config["BLOCK_N"])
        rows = tile.cdiv(pixels, config["BLOCK_M"] + config["REST"])
        launch(shift_conv_kernel, (rows * columns,))(
            *(x, filters, shift_h, shift_w, result.value, height, width),
            *((divisor(height), divisor(width), divisor(columns)), pixels),
            FILTERS=count,
            CHANNELS=channels,
            RUN=run,
            WIDE=image.size > MOST,
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(image.dtype).name),
            **config,
        )
    return result.value


def shift_conv_reference(x: Array, filters: Array, shift_h: Array, shift_w: Array) -> Array:
    """Return the result in float64: whole channels are shifted, then multiplied."""
    result: Array = shifted(x, shift_h, shift_w) @ filters.T
    return result
