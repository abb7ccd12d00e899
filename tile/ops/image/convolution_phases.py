"""The gradient of the image of a convolution, as convolutions of stride 1.

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

import tile
from tile.ops.core.call import Call
from tile.ops.core.new_arrays import DType
from tile.ops.image.convolution import convolve
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows


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
