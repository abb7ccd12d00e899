"""The pixels that the pixels of a resized image are interpolated from.

    source(p) = (p + 1/2) height / P - 1/2, at least 0, or
                p (height - 1) / (P - 1) if corners are aligned

Sources are fractions of integers, so that pixels and weights are exact in every type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.division import divisor, quotient
from tile.ops.core.reference import Array
from tile.ops.image.images import image_of, layout_of, result_image
from tile.ops.image.pixels import ELEMENTS, launch_pixels, many_elements
from tile.ops.image.windows import pair

# The elements, columns and warps of a program with a plane. Adjacent pixels of smaller images
# share no sources. H200, 2026-11-30.
PLANE_ELEMENTS, SMALLER_ELEMENTS, PLANE_COLUMNS, PLANE_WARPS = 4096, 1024, 128, 4


@tile.jit
def sources(p, size, scale, by_c):
    """Return both pixels between which the source of p is, and the weight of the second times c.

    scale: a, b and c, of which the source is (p * a + b) / c. by_c: `divisor(c)`.
    """
    above = tl.maximum(p * scale[0] + scale[1], 0)
    first = quotient(above, by_c)
    return first, tl.minimum(first + 1, size - 1), above - first * scale[2]


@tile.jit
def tile_of_plane(height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return this program's plane, counted through all images, and its rows and columns."""
    blocks, across = tl.cdiv(height, ROWS), tl.cdiv(width, COLUMNS)
    plane = tl.program_id(0) // (blocks * across)
    block = tl.program_id(0) - plane * (blocks * across)
    p = block // across * ROWS + tl.arange(0, ROWS)[:, None]
    q = block % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return plane.to(tl.int64), p, q


@dataclass(frozen=True)
class Scale:
    """The source of pixel p along an axis, (p * a + b) / c."""

    a: int
    b: int
    c: int

    @classmethod
    def of(cls, size: int, count: int, aligned: bool) -> Scale:
        if size == 1:
            return cls(1, 0, count + 1)  # all sources are between pixel 0 and itself
        if aligned:
            return cls(size - 1, 0, max(1, count - 1))
        return cls(2 * size, size - count, 2 * count)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.a, self.b, self.c

    @property
    def divisors(self) -> tuple[int, int]:
        """The divisors (division.py) of a and of c."""
        return divisor(self.a), divisor(self.c)

    @property
    def reach(self) -> int:
        """The most pixels whose sources are less than a pixel from one pixel.

        Sources are a / c apart, and those pixels in an open interval of two; sources before the
        first pixel are half a pixel from it at most.
        """
        return tile.cdiv(2 * self.c, self.a)

    def weights(self, size: int, count: int) -> Array:
        """Return the matrix of weights, count x size, for references."""
        above = np.maximum(np.arange(count) * self.a + self.b, 0)
        first, weight = above // self.c, above % self.c / self.c
        matrix = np.zeros((count, size))
        np.add.at(matrix, (np.arange(count), first), 1 - weight)
        np.add.at(matrix, (np.arange(count), np.minimum(first + 1, size - 1)), weight)
        return matrix


def weights_of(size: Any, count: Any, aligned: bool) -> tuple[Array, Array]:
    """Return the matrices of weights of rows and of columns, for references."""
    sizes, counts = (pair(Call("resize_bilinear"), "size", each, 1) for each in (size, count))
    rows, columns = (
        Scale.of(n, to, aligned).weights(n, to) for n, to in zip(sizes, counts, strict=True)
    )
    return rows, columns


def resize(
    call: Call,
    kernels: tuple[Any, Any],
    array: tuple[str, Any],
    size: Any,
    aligned: bool,
    layout: Any,
    out: Any,
    gradient: bool,
) -> Any:
    """Return an array, by name, resized to a height and width; or the gradient of such an image."""
    operand = call.array(*array, rank=4)
    layout = layout_of(call, layout)
    source = image_of(operand, layout)
    batches, height, width, channels = source.shape
    if not height * width:
        raise ArgumentValueError(
            f"{call.op}: `{operand.name}` has shape {operand.shape}; it has no pixels"
        )
    wanted = pair(call, "size", size, 1)
    result, target = result_image(call, out, (batches, *wanted, channels), operand.dtype, layout)
    if result.size:
        sizes, counts = (wanted, (height, width)) if gradient else ((height, width), wanted)
        down, right = (Scale.of(n, to, aligned) for n, to in zip(sizes, counts, strict=True))
        reach: dict[str, Any] = {}
        if gradient:
            reach["REACH_ROWS"] = min(down.reach, counts[0])
            reach["REACH_COLUMNS"] = min(right.reach, counts[1])
        arrays = source.value, result.value, source.strides, target.strides, (*sizes, *counts)
        scales = down.numbers, right.numbers, (*down.divisors, *right.divisors)
        if target.strides[2] == 1:
            columns = min(PLANE_COLUMNS, tile.next_power_of_2(wanted[1]))
            smaller = not gradient and wanted[0] * wanted[1] < height * width
            elements = SMALLER_ELEMENTS if smaller else PLANE_ELEMENTS
            rows = min(elements // columns, tile.next_power_of_2(wanted[0]))
            blocks = tile.cdiv(wanted[0], rows) * tile.cdiv(wanted[1], columns)
            launch(kernels[1], (batches * channels * blocks,))(
                *(*arrays, *scales, channels),
                ROWS=rows,
                COLUMNS=columns,
                num_warps=PLANE_WARPS,
                **reach,
            )
        else:
            launch_pixels(
                *(kernels[0], target, *arrays, divisor(wanted[1]), *scales),
                elements=many_elements(target) if gradient else ELEMENTS,
                **reach,
            )
    return result.value
