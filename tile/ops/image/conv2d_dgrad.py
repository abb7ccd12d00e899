"""The gradient of the image of a convolution, and the transposed convolution, which is the same.

    dx[n, h, w, c] = sum over k and over p, r with p * stride - padding + r * dilation = h, ...,
                     of dy[n, p, q, k] * filters[k, r, s, c]

Of the pixels h = a + stride * i, for a fixed a, only some r have a p: every (stride / gcd)-th from
the first such r0 on, where gcd is that of stride and dilation. With r = r0 + j * stride / gcd,

    p = i + (a + padding - r0 * dilation) / stride - j * dilation / gcd

so the pixels of one a are a convolution of dy of stride 1 (convolution.py), by some of the filters'
elements and with a negative dilation. There are stride * stride of them, each by a launch, and no
operation on zeros is done. Filters and results are addressed by strides: nothing is copied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.new_arrays import DType
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import (
    channels_in,
    channels_last,
    group_count,
    grouped,
    image_and_filters,
    image_size,
    referenced,
)
from tile.ops.image.convolution import convolve
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.images import Image, result_image
from tile.ops.image.windows import Window, Windows, edges_of, inner, windows_of


@dataclass(frozen=True)
class Phase:
    """The pixels first + step * i of one axis: `size` of them, and the windows of dy.

    r, r_step, count: the first element of the window that they have, the distance to the next one,
    and how many there are. origin, apart: of a window over dy.
    """

    first: int
    size: int
    r: int
    r_step: int
    count: int
    origin: int
    apart: int


def phases(extent: int, windows: Windows, axis: int) -> Iterator[Phase]:
    """Yield the phases of an axis of `extent` pixels."""
    step, apart, edge = windows.step[axis], windows.apart[axis], -windows.first[axis]
    common = math.gcd(step, apart)
    for a in range(min(step, extent)):
        fitting = (r for r in range(step // common) if (a + edge - r * apart) % step == 0)
        r = next(fitting, windows.count[axis])
        count = max(0, tile.cdiv(windows.count[axis] - r, step // common))
        origin = (a + edge - r * apart) // step
        size = tile.cdiv(extent - a, step)
        yield Phase(a, size, r if count else 0, step // common, count, origin, -(apart // common))


def gradient_of_image(
    call: Call,
    dy: Image,
    filters: Image,
    bias: Any,
    dx: Image,
    windows: Windows,
    groups: int,
    dtype: DType,
    precision: str,
) -> None:
    """Write the gradient `dx` of an image; `filters` are those of the convolution."""
    k, r, s, c = filters.strides
    per_group = filters.shape[0] // groups
    for down, right in itertools.product(
        phases(dx.shape[1], windows, 0), phases(dx.shape[2], windows, 1)
    ):
        weights = Image(
            filters.value,
            (filters.shape[3], down.count, right.count, per_group),
            (c, r * down.r_step, s * right.r_step, k),
            filters.start + down.r * r + right.r * s,
        )
        count, origin = (down.count, right.count), (down.origin, right.origin)
        convolve(
            Convolution(
                *(call, dy, weights, bias),
                dx.phase((down.first, right.first), windows.step, (down.size, right.size)),
                Windows(count, origin, (1, 1), (down.apart, right.apart)),
                *(groups, per_group * k, dtype),
                precision=precision,
            )
        )


@planned()
def conv2d_dgrad(
    dy: Any,
    filters: Any,
    size: tuple[int, int],
    stride: Window = 1,
    padding: Window = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the gradient of the image `x` of `conv2d` from `dy`, that of the result.

    size: the height and width of x. The other arguments are those of `conv2d`.
    """
    call = Call("conv2d_dgrad")
    operand, gradient, weights = image_and_filters(call, ("dy", dy), filters, layout)
    (batches, p, q, count), (filters_, r, s, depth) = gradient.shape, weights.shape
    groups = group_count(call, groups, count, filters_, "the channels of `dy` and the filters")
    if count != filters_:
        raise ArgumentValueError(
            f"conv2d_dgrad: `dy` has {count} channels, and there are {filters_} filters"
        )
    call.choice("precision", precision, PRECISIONS)
    windows = windows_of(call, (r, s), stride, padding, dilation)
    shape = (batches, *image_size(call, size, windows, (p, q)), depth * groups)
    result, dx = result_image(call, out, shape, operand.dtype, layout)
    if result.size:
        gradient_of_image(
            call, gradient, weights, None, dx, windows, groups, operand.dtype, precision
        )
    return result.value


def conv2d_dgrad_reference(
    dy: Array,
    filters: Array,
    size: tuple[int, int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
    layout: str,
) -> Array:
    """Return the gradient in float64: a sum over the positions of the window."""
    dy = channels_last(dy, layout)
    filters, windows = referenced(filters, stride, padding, dilation, groups, layout)
    channels = groups * filters.shape[-1]
    padded = np.pad(np.zeros((len(dy), *size, channels)), edges_of(windows))
    for r, s, rows, columns in windows.positions((dy.shape[1], dy.shape[2])):
        part = np.einsum("npqgk,gkc->npqgc", grouped(dy, groups), filters[:, :, r, s])
        padded[:, rows, columns] += part.reshape(*dy.shape[:3], channels)
    return channels_in(inner(padded, windows, size), layout)
