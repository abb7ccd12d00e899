"""A convolution of images as a matmul: what its kernels share.

    out[n, p, q, k] = sum over r, s, c of x[n, p * step + first + r * apart, ..., c]
                      * filters[k, r, s, c]

Rows of the matmul are the pixels (n, p, q) of the result, columns are the filters of a group, and
the inner axis is (r, s, c). Everything is addressed by strides, and `apart` may be negative: the
gradient of an image is a convolution of this form, too (convolution_phases.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tile.language as tl
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.new_arrays import DType
from tile.ops.image.images import Image
from tile.ops.image.pixels import order_of
from tile.ops.image.windows import Windows


@dataclass(frozen=True)
class Convolution:
    """The operands of one convolution, and the windows over `x`.

    filters: those of one group, filters x R x S x channels of it. groups, filter_step: how many
    there are, and the distance of their filters, in elements. dtype: of all arrays.
    """

    call: Call
    x: Image
    filters: Image
    bias: Any
    out: Image
    windows: Windows
    groups: int
    filter_step: int
    dtype: DType
    function: Any = None  # the device function of an activation
    precision: str = "ieee"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The pixels, the filters of a group, and the elements of a window."""
        (batches, p, q, _), (count, r, s, channels) = self.out.shape, self.filters.shape
        return batches * p * q, count, r * s * channels

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays, as arguments of a kernel."""
        return self.x.value, self.filters.value, self.bias, self.out.value

    @property
    def starts(self) -> tuple[int, int, int]:
        """The first elements of the image, the filters and the result."""
        return self.x.start, self.filters.start, self.out.start

    @property
    def addresses(self) -> tuple[Any, ...]:
        """The arguments of a kernel by which it finds the pixels of a window, and the filters."""
        strides = self.x.strides, self.filters.strides, self.out.strides
        _, p, q, _ = self.out.shape
        extents = (*self.x.shape[1:3], p, q, p * q)
        moves = self.windows.first, self.windows.step, self.windows.apart
        return (*strides, extents, *self.sizes[:2], *moves)

    @property
    def constants(self) -> dict[str, Any]:
        """The constants that all kernels have."""
        _, _, s, channels = self.filters.shape
        return {
            "S": max(1, s),
            "CHANNELS": max(1, channels),
            "INNER": self.sizes[2],
            "ORDER": order_of(self.out),
            "ACTIVATION": self.function,
            "PRECISION": self.precision,
        }

    @property
    def sums(self) -> Any:
        """The type of the sums, as a constant of a kernel."""
        return getattr(tl, accumulator(self.dtype).name)

    def into(self, parts: Operand) -> Convolution:
        """Return the convolution that writes sums of parts of the window, to be added up."""
        (_, p, q, _), columns = self.out.shape, parts.shape[-1]
        out = Image(parts, self.out.shape, (p * q * columns, q * columns, columns, 1))
        return replace(self, bias=None, function=None, out=out)
