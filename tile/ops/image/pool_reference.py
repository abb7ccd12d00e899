"""Pooling in NumPy, window after window, for the references of all pooling ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tile.ops.core.call import Call
from tile.ops.core.reference import Array, wide
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.images import spatial
from tile.ops.image.pool_launches import pool_windows
from tile.ops.image.windows import Pair, Window, Windows, window_counts

Span = tuple[int, int]


@dataclass(frozen=True)
class Spans:
    """The pixels of each window along height and width, without padding; `area` if it is fixed."""

    height: list[Span]
    width: list[Span]
    area: int | None = None

    @classmethod
    def equal(cls, windows: Windows, size: Pair, counts: Pair, padded: bool) -> Spans:
        """Return the spans of equal windows; with `padded`, pixels in the padding have an area."""
        spans = []
        for axis in (0, 1):
            starts = (p * windows.step[axis] + windows.first[axis] for p in range(counts[axis]))
            ends = ((start, start + windows.count[axis]) for start in starts)
            spans.append([(max(start, 0), min(end, size[axis])) for start, end in ends])
        return cls(spans[0], spans[1], windows.count[0] * windows.count[1] if padded else None)

    @classmethod
    def adaptive(cls, size: Pair, counts: Pair) -> Spans:
        """Return the spans of adaptive windows."""
        spans = [
            [(p * n // count, -(-(p + 1) * n // count)) for p in range(count)]
            for n, count in zip(size, counts, strict=True)
        ]
        return cls(spans[0], spans[1])

    def windows(self) -> Iterator[tuple[int, int, slice, slice, int]]:
        """Yield the indices of each window, its rows and columns, and its area."""
        for p, (top, bottom) in enumerate(self.height):
            for q, (left, right) in enumerate(self.width):
                area = self.area or (bottom - top) * (right - left)
                yield p, q, slice(top, bottom), slice(left, right), area


def equal_spans(
    x: Array, window: Window, stride: Window, padding: Window, padded: bool, layout: str
) -> Spans:
    """Return the windows over an image."""
    call = Call("pooling")
    size = spatial(x.shape, layout)
    windows = pool_windows(call, window, stride, padding)
    return Spans.equal(windows, size, window_counts(call, size, windows), padded)


def pooled(x: Array, spans: Spans, mean: bool, layout: str) -> tuple[Array, Array]:
    """Return maxima or means in float64, and the indices of maxima in the image."""
    x = channels_last(wide(x)[0], layout)
    shape = (len(x), len(spans.height), len(spans.width), x.shape[3])
    out, index = np.zeros(shape), np.zeros(shape, np.int32)
    for p, q, rows, columns, area in spans.windows():
        part = x[:, rows, columns]
        height, width = part.shape[1:3]
        flat = part.reshape(len(x), height * width, x.shape[3])
        if mean:
            out[:, p, q] = flat.sum(axis=1) / area
            continue
        out[:, p, q] = flat.max(axis=1)
        at = flat.argmax(axis=1)
        index[:, p, q] = (rows.start + at // width) * x.shape[2] + columns.start + at % width
    return channels_in(out, layout), channels_in(index, layout)


def mean_gradient(dy: Array, spans: Spans, size: Pair, layout: str) -> Array:
    """Return the gradient of an image whose windows were averaged, in float64."""
    dy = channels_last(wide(dy)[0], layout)
    dx = np.zeros((len(dy), *size, dy.shape[3]))
    for p, q, rows, columns, area in spans.windows():
        dx[:, rows, columns] += dy[:, p : p + 1, q : q + 1] / area
    return channels_in(dx, layout)


def maximum_gradient(dy: Array, index: Array, size: Pair, layout: str) -> Array:
    """Return the gradient of an image whose maxima have these indices, in float64."""
    dy, index = channels_last(wide(dy)[0], layout), channels_last(index, layout)
    dx = np.zeros((len(dy), size[0] * size[1], dy.shape[3]))
    n, c = np.arange(len(dy))[:, None, None, None], np.arange(dy.shape[3])
    np.add.at(dx, (n, index, c), dy)
    return channels_in(dx.reshape(len(dy), *size, dy.shape[3]), layout)
