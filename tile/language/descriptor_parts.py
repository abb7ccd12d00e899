"""What a descriptor of the host is made of."""

from __future__ import annotations

from typing import Any, NamedTuple


class DescriptorParts(NamedTuple):
    """A descriptor that was made on the host, as a kernel is given it.

    `base` is a pointer; extents and strides are integers, in elements; the last stride is 1, and
    that, the block's shape and the padding ("zero" or "nan") are known when the kernel is compiled.
    """

    base: Any
    shape: Any
    strides: Any
    block_shape: Any
    padding: Any
