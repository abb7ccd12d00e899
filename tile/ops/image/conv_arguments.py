"""The arguments that convolutions and their gradients share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand
from tile.ops.core.reference import Array
from tile.ops.image.images import LAYOUTS, Image, image_of, layout_of
from tile.ops.image.windows import Windows, windows_of


def group_count(call: Call, groups: Any, channels: int, filters: int, names: str) -> int:
    """Return the number of groups; raise `ArgumentValueError` unless it divides both counts."""
    if type(groups) is not int or groups < 1 or channels % groups or filters % groups:
        raise ArgumentValueError(
            f"{call.op}: `groups` is {groups!r}; it is an integer that divides {names}, "
            f"{channels} and {filters}"
        )
    return groups


def image_and_filters(
    call: Call, x: tuple[str, Any], filters: Any, layout: Any
) -> tuple[Operand, Image, Image]:
    """Return an image by name, and filters of its type, filters x R x S x channels."""
    name = layout_of(call, layout)
    operand = call.array(*x, rank=4)
    weights = call.array("filters", filters, dtypes=(operand.dtype,), rank=4)
    return operand, image_of(operand, name), image_of(weights, name)


def image_size(call: Call, size: Any, like: Windows, counts: tuple[int, int]) -> tuple[int, int]:
    """Return `size`, the height and width of an image; raise unless it has so many windows."""
    if not (
        isinstance(size, tuple | list) and len(size) == 2 and all(type(n) is int for n in size)
    ):
        raise ArgumentValueError(f"{call.op}: `size` is {size!r}; it is a height and a width")
    height, width = size
    for axis, (extent, count) in enumerate(zip((height, width), counts, strict=True)):
        step, reach = like.step[axis], (like.count[axis] - 1) * like.apart[axis] + 1
        least = (count - 1) * step + reach + 2 * like.first[axis]
        if count and not least <= extent < least + step:
            raise ArgumentValueError(
                f"{call.op}: `size` is {size!r}; its {('height', 'width')[axis]} must be {least} "
                f"to {least + step - 1} for {count} windows"
            )
    return height, width


def referenced(
    filters: Array, stride: Any, padding: Any, dilation: Any, groups: int, layout: str
) -> tuple[Array, Windows]:
    """Return filters as groups x filters x R x S x channels, and the windows, for references."""
    filters = channels_last(filters, layout)
    count, r, s, channels = filters.shape
    windows = windows_of(Call("reference"), (r, s), stride, padding, dilation)
    return filters.reshape(groups, count // groups, r, s, channels), windows


def channels_last(x: Array, layout: str) -> Array:
    """Return a view of an array of a layout as batch x height x width x channels."""
    return x.transpose(LAYOUTS[layout])


def channels_in(x: Array, layout: str) -> Array:
    """Return batch x height x width x channels as an array of a layout."""
    return x.transpose(np.argsort(LAYOUTS[layout])) if layout == "NCHW" else x


def grouped(x: Array, groups: int) -> Array:
    """Return an image with an axis of groups before that of their channels."""
    return x.reshape(*x.shape[:3], groups, x.shape[3] // groups)
