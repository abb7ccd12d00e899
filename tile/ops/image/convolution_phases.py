"""The gradient of the image of a convolution, by phases of its pixels (phases.py).

One launch computes all where TMA copies the pixels (im2col_phases.py); otherwise each is a
convolution (convolution.py). Filters and results are addressed by strides: nothing is copied.
"""

from __future__ import annotations

import itertools
from typing import Any

from tile.ops.core.call import Call
from tile.ops.core.new_arrays import DType
from tile.ops.image.aligned_convolution import planes_pay
from tile.ops.image.aligned_images import Copy, copied, copy_images, new_image
from tile.ops.image.convolution import convolve
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_phases import im2col_phases
from tile.ops.image.images import Image
from tile.ops.image.phases import phases
from tile.ops.image.windows import Windows


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
    axes = [list(phases(dx.shape[1 + axis], windows, axis)) for axis in (0, 1)]
    several = groups == 1 and max(map(len, axes)) > 1
    if several and planes_pay(call, dtype, dy, filters, dx):
        target = new_image(call, dx.shape, dtype)
        dy, filters = copied(call, dtype, dy, filters)
        gradient_of_image(call, dy, filters, bias, target, windows, groups, dtype, precision)
        copy_images(Copy(target, dx))
        return
    if several and im2col_phases(call, dy, filters, bias, dx, axes, windows.step, dtype, precision):
        return
    for down, right in itertools.product(*axes):
        weights = Image(
            filters.operand,
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
