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
from tile.ops.core.division import divisor
from tile.ops.core.reference import Array
from tile.ops.image.images import image_of, layout_of, result_image
from tile.ops.image.pixels import ELEMENTS, launch_pixels, many_elements
from tile.ops.image.windows import pair


@tile.jit
def sources(p, size, scale):
    """Return both pixels between which the source of p is, and the weight of the second times c.

    scale: a, b and c, of which the source is (p * a + b) / c.
    """
    above = tl.maximum(p * scale[0] + scale[1], 0)
    first = above // scale[2]
    return first, tl.minimum(first + 1, size - 1), above % scale[2]


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
    def reach(self) -> int:
        """The most pixels whose sources are less than a pixel from one pixel."""
        return tile.cdiv(2 * self.c, self.a) + 1

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
    kernel: Any,
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
        reach: dict[str, Any] = {
            "ROWS": min(down.reach, counts[0]),
            "COLUMNS": min(right.reach, counts[1]),
        }
        launch_pixels(
            *(kernel, target, source.value, result.value, source.strides, target.strides),
            *((*sizes, *counts), divisor(wanted[1]), down.numbers, right.numbers),
            elements=many_elements(target) if gradient else ELEMENTS,
            **(reach if gradient else {}),
        )
    return result.value
