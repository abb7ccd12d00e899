"""Windows that move over an image: their parameters, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tile.errors import ArgumentValueError
from tile.ops.core.call import MOST_INTEGER, Call
from tile.ops.core.reference import Array

Pair = tuple[int, int]
Window = int | tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """Windows over height and width: element r of window p is pixel first + p * step + r * apart.

    count: the number of elements of a window.
    """

    count: Pair
    first: Pair
    step: Pair
    apart: Pair

    def positions(self, size: Pair) -> Iterator[tuple[int, int, slice, slice]]:
        """Yield r and s, and where all windows have this element in an image that is padded.

        size: the number of windows along height and width. Pixel `first` is at the index 0.
        """
        for r in range(self.count[0]):
            for s in range(self.count[1]):
                starts = r * self.apart[0], s * self.apart[1]
                rows, columns = (
                    slice(start, start + (n - 1) * step + 1, step)
                    for start, n, step in zip(starts, size, self.step, strict=True)
                )
                yield r, s, rows, columns


def pair(call: Call, name: str, value: Any, low: int) -> Pair:
    """Return a parameter of height and width; one integer is both. `low` is its least value."""
    values = value if isinstance(value, tuple | list) else (value, value)
    if len(values) != 2 or not all(
        type(item) is int and low <= item <= MOST_INTEGER for item in values
    ):
        raise ArgumentValueError(
            f"{call.op}: `{name}` is {value!r}; it is an integer of {low} or more, or two of them"
        )
    return values[0], values[1]


def windows_of(call: Call, count: Pair, stride: Any, padding: Any, dilation: Any) -> Windows:
    """Return the windows of a convolution with these arguments, or raise `ArgumentValueError`."""
    steps, edges = pair(call, "stride", stride, 1), pair(call, "padding", padding, 0)
    return Windows(count, (-edges[0], -edges[1]), steps, pair(call, "dilation", dilation, 1))


def window_counts(call: Call, image: tuple[int, ...], windows: Windows) -> Pair:
    """Return how many positions a window has along height and width.

    Raises `ArgumentValueError` for a window that does not fit into the padded image.
    """
    counts = []
    for name, size, extent, step, first, apart in zip(
        *(("height", "width"), image, windows.count, windows.step, windows.first, windows.apart),
        strict=True,
    ):
        reach, padded = (extent - 1) * apart + 1, size - 2 * first
        if extent < 1 or reach > padded:
            raise ArgumentValueError(
                f"{call.op}: the {name} of `x` with padding is {padded}; a window of "
                f"{reach} does not fit"
            )
        counts.append((padded - reach) // step + 1)
    return counts[0], counts[1]


def edges_of(windows: Windows) -> tuple[Pair, Pair, Pair, Pair]:
    """Return the padding of an image, batch x height x width x channels, as `np.pad` takes it."""
    top, left = -windows.first[0], -windows.first[1]
    return (0, 0), (top, top), (left, left), (0, 0)


def inner(array: Array, windows: Windows, size: Pair) -> Array:
    """Return the image inside of a padded one."""
    top, left = -windows.first[0], -windows.first[1]
    return array[:, top : top + size[0], left : left + size[1]]
