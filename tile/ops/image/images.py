"""Images and filters as batch x height x width x channels, whatever the order of their axes.

Kernels address elements by strides. Convolutions copy planes where that pays (aligned_images.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tile.ops.core.call import Call, Operand
from tile.ops.core.new_arrays import DType

Four = tuple[int, int, int, int]
# The axes of batch, height, width and channels; of filters, those of filters, R, S and channels.
LAYOUTS: dict[str, Four] = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 2, 3, 1)}


@dataclass(frozen=True)
class Image:
    """An array, of which the element at the index 0 is element `start`; strides are in elements."""

    operand: Operand
    shape: Four
    strides: Four
    start: int = 0

    @property
    def value(self) -> Any:
        """The array, as an argument of a kernel."""
        return self.operand.value

    @property
    def channels_last(self) -> bool:
        """True if adjacent channels are adjacent in memory."""
        return self.strides[3] == 1 or self.shape[3] == 1

    def phase(self, first: tuple[int, int], step: tuple[int, int], size: tuple[int, int]) -> Image:
        """Return every `step`-th pixel from `first` on, `size` of them, of height and width."""
        batch, down, right, channel = self.strides
        return replace(
            self,
            shape=(self.shape[0], *size, self.shape[3]),
            strides=(batch, down * step[0], right * step[1], channel),
            start=self.start + first[0] * down + first[1] * right,
        )


def layout_of(call: Call, layout: Any) -> str:
    """Return the name of a layout; raise `ArgumentValueError` for another value."""
    name: str = call.choice("layout", layout, tuple(LAYOUTS))
    return name


def image_of(operand: Operand, layout: str) -> Image:
    """Return an operand of four axes as an image."""
    n, h, w, c = LAYOUTS[layout]
    shape, strides = operand.shape, operand.strides
    extents = shape[n], shape[h], shape[w], shape[c]
    regular = _regular(extents, (strides[n], strides[h], strides[w], strides[c]))
    return Image(replace(operand, shape=extents, strides=regular), extents, regular)


def _regular(shape: Four, strides: Four) -> Four:
    """Return the strides with those of axes of one element that lead through the axes inside.

    Libraries give such axes any strides, which TMA may not take.
    """
    (batches, height, width, channels), (batch, down, right, channel) = shape, strides
    if width == 1:
        right = down if height != 1 else channels * channel
    if height == 1:
        down = width * right
    if batches == 1:
        batch = height * down if channel == 1 else channels * channel
    return batch, down, right, channel


def spatial(shape: tuple[int, ...], layout: str) -> tuple[int, int]:
    """Return the height and width of an array of a layout."""
    return shape[LAYOUTS[layout][1]], shape[LAYOUTS[layout][2]]


def size_of_x(step: Any) -> tuple[int, int]:
    """Return the height and width of the argument `x` of an op, whose gradient autograd wants."""
    return spatial(step.arguments["x"].shape, step.arguments.get("layout", "NHWC"))


def in_layout(shape: Four, layout: str) -> Four:
    """Return a shape, batch x height x width x channels, in the order of a layout.

    >>> in_layout((2, 5, 7, 3), "NCHW")
    (2, 3, 5, 7)
    """
    n, h, w, c = shape
    return (n, c, h, w) if layout == "NCHW" else shape


def result_image(
    call: Call, out: Any, shape: Four, dtype: DType, layout: str
) -> tuple[Operand, Image]:
    """Return the result of an op, of the given batch x height x width x channels."""
    result = call.output("out", out, in_layout(shape, layout), dtype)
    return result, image_of(result, layout)
