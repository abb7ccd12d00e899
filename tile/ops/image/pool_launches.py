"""The checks and launches that all ops of pooling share, for equal and for adaptive windows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tile
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.division import divisor
from tile.ops.image.conv_arguments import image_size
from tile.ops.image.global_means import store_global_means
from tile.ops.image.images import Image, image_of, layout_of, result_image, spatial
from tile.ops.image.pixels import ELEMENTS, launch_pixels, many_elements
from tile.ops.image.pool_kernels import pool_backward_kernel, pool_kernel
from tile.ops.image.windows import Pair, Windows, pair, windows_of


@dataclass(frozen=True)
class Pooling:
    """Windows to pool over: a maximum or a mean, and None for adaptive windows.

    padded: pixels in the padding count in means.
    """

    mean: bool
    windows: Windows | None
    padded: bool = True

    def pool(self, x: Image, out: Image, index: Image | None) -> None:
        """Write the maxima or means of `x`, and the indices of maxima unless `index` is None."""
        reach = _reach(x, out) if self.windows is None else self.windows.count
        self._launch(pool_kernel, (x, index, out), reach, (x, out))

    def gradient(self, dy: Image, index: Image | None, dx: Image) -> None:
        """Write the gradient `dx` of an image."""
        reach = _reach(dy, dx)
        if self.windows is not None:
            count, step = self.windows.count, self.windows.step
            reach = tile.cdiv(count[0], step[0]), tile.cdiv(count[1], step[1])
        elements = many_elements(dx)
        self._launch(pool_backward_kernel, (dy, index, dx), reach, (dx, dy), elements)

    def _launch(
        self,
        kernel: Any,
        arrays: tuple[Image, Image | None, Image],
        reach: Pair,
        image_and_pooled: tuple[Image, Image],
        elements: int = ELEMENTS,
    ) -> None:
        image, pooled = image_and_pooled
        source, index, result = arrays
        windows = self.windows or Windows((1, 1), (0, 0), (1, 1), (1, 1))
        sizes = (*image.shape[1:3], *pooled.shape[1:3])
        launch_pixels(
            *(kernel, result),
            *(source.value, None if index is None else index.value, result.value),
            *(source.strides, (index or result).strides, result.strides),
            *(sizes, tuple(map(divisor, (*sizes, *windows.step)))),
            *(windows.count, windows.step, windows.first),
            R=reach[0],
            S=reach[1],
            MEAN=self.mean,
            PADDED=self.padded and self.windows is not None,
            ADAPTIVE=self.windows is None,
            elements=elements,
        )


def pool_windows(call: Call, window: Any, stride: Any, padding: Any) -> Windows:
    """Return equal windows, whose padding is at most half of their size."""
    windows = windows_of(call, pair(call, "window", window, 1), stride, padding, 1)
    for first, extent in zip(windows.first, windows.count, strict=True):
        call.number("padding", -first, high=extent // 2)
    return windows


def pool(
    call: Call, pooling: Pooling, x: Operand, counts: Pair, layout: str, out: Any, indices: bool
) -> Any:
    """Return the maxima or means of windows, `counts` of them, and the indices if wanted."""
    image = image_of(x, layout)
    shape = (image.shape[0], *counts, image.shape[3])
    result, target = result_image(call, out, shape, x.dtype, layout)
    index = call.new(result.shape, I32) if indices else None
    whole = pooling.mean and pooling.windows is None and counts == (1, 1)
    if result.size and not (whole and store_global_means(call.backend, image, target)):
        pooling.pool(image, target, None if index is None else image_of(index, layout))
    return result.value if index is None else (result.value, index.value)


def pool_gradient(
    call: Call, pooling: Pooling, dy: Operand, index: Any, size: Pair, layout: str, out: Any
) -> Any:
    """Return the gradient of an image of this size from that of the maxima or means.

    index: the indices of maxima.
    """
    indices = None
    if not pooling.mean:
        operand = call.array("index", index, dtypes=(I32,), rank=4, shape=dy.shape)
        indices = image_of(operand.within(0, size[0] * size[1]), layout)
    image = image_of(dy, layout)
    shape = (image.shape[0], *size, image.shape[3])
    result, target = result_image(call, out, shape, dy.dtype, layout)
    if result.size:
        pooling.gradient(image, indices, target)
    return result.value


def equal_pool_gradient(
    call: Call, pooling: Pooling, dy: Any, index: Any, size: Any, layout: Any, out: Any
) -> Any:
    """Return the gradient of an image of this size, as `pool_gradient` does, of equal windows."""
    gradient = call.array("dy", dy, rank=4)
    counts = spatial(gradient.shape, layout_of(call, layout))
    assert pooling.windows is not None
    size = image_size(call, size, pooling.windows, counts)
    return pool_gradient(call, pooling, gradient, index, size, layout, out)


def _reach(image: Image, pooled: Image) -> Pair:
    """Return how many pixels of `image` an adaptive window has at most, for height and width."""
    height, width = (_longest(image.shape[axis], pooled.shape[axis]) for axis in (1, 2))
    return height, width


def _longest(size: int, count: int) -> int:
    """Return the extent of the longest of `count` adaptive windows over `size` pixels.

    The remainders of p * size by count are the multiples of the greatest common divisor.
    """
    common = math.gcd(size, count)
    return (count - common + size + count - 1) // count
