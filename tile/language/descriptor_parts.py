"""The fields of a tensor descriptor that was made on the host."""

from __future__ import annotations

from typing import Any, NamedTuple


class DescriptorParts(NamedTuple):
    """A descriptor that was made on the host, as an argument of a kernel.

    `base` is a pointer; extents and strides are integers, in elements. The last stride is 1. It,
    the block's shape and the padding ("zero" or "nan") are compile-time values.
    """

    base: Any
    shape: Any
    strides: Any
    block_shape: Any
    padding: Any
