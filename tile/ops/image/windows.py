"""Windows that move over an image: their parameters, and how many there are."""

from __future__ import annotations

from typing import Any

from tile.errors import ArgumentValueError
from tile.ops.core.call import Call

Pair = tuple[int, int]


def pair(call: Call, name: str, value: Any, low: int) -> Pair:
    """Return a parameter of height and width; one integer is both. `low` is its least value."""
    values = value if isinstance(value, tuple | list) else (value, value)
    if len(values) != 2 or not all(type(item) is int and item >= low for item in values):
        raise ArgumentValueError(
            f"{call.op}: `{name}` is {value!r}; it is an integer of {low} or more, or two of them"
        )
    return values[0], values[1]


def window_counts(
    call: Call, image: tuple[int, ...], window: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Pair:
    """Return how many positions a window has along height and width.

    Raises `ArgumentValueError` for a window that does not fit into the padded image.
    """
    counts = []
    for name, size, extent, step, edge, apart in zip(
        ("height", "width"), image, window, stride, padding, dilation, strict=True
    ):
        reach = (extent - 1) * apart + 1
        if extent < 1 or reach > size + 2 * edge:
            raise ArgumentValueError(
                f"{call.op}: the {name} of `x` with padding is {size + 2 * edge}; a window of "
                f"{reach} does not fit"
            )
        counts.append((size + 2 * edge - reach) // step + 1)
    return counts[0], counts[1]
