"""The pixels of an image whose gradient is a convolution of stride 1 each.

    dx[n, h, w, c] = sum over k and over p, r with p * stride - padding + r * dilation = h, ...,
                     of dy[n, p, q, k] * filters[k, r, s, c]

Of the pixels h = a + stride * i, for a fixed a, only some r have a p: every (stride / gcd)-th from
the first such r0 on, where gcd is that of stride and dilation. With r = r0 + j * stride / gcd,

    p = i + (a + padding - r0 * dilation) / stride - j * dilation / gcd

so the pixels of one a are a convolution of dy of stride 1, by some of the filters' elements and
with a negative dilation. No operation on zeros is done.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import tile
from tile.ops.image.windows import Windows


@dataclass(frozen=True)
class Phase:
    """The pixels first + step * i of one axis: `size` of them, and the windows of dy.

    r, r_step, count: the first element of the window that they have, the distance to the next one,
    and how many there are. origin, apart: of a window over dy.
    """

    first: int
    size: int
    r: int
    r_step: int
    count: int
    origin: int
    apart: int

    @property
    def last(self) -> int:
        """The pixel of dy under the last element of the first window."""
        return self.origin + (self.count - 1) * self.apart

    @property
    def last_r(self) -> int:
        """The last element of the filters."""
        return self.r + max(0, self.count - 1) * self.r_step


def phases(extent: int, windows: Windows, axis: int) -> Iterator[Phase]:
    """Yield the phases of an axis of `extent` pixels."""
    step, apart, edge = windows.step[axis], windows.apart[axis], -windows.first[axis]
    common = math.gcd(step, apart)
    for a in range(min(step, extent)):
        fitting = (r for r in range(step // common) if (a + edge - r * apart) % step == 0)
        r = next(fitting, windows.count[axis])
        count = max(0, tile.cdiv(windows.count[axis] - r, step // common))
        origin = (a + edge - r * apart) // step
        size = tile.cdiv(extent - a, step)
        yield Phase(a, size, r if count else 0, step // common, count, origin, -(apart // common))
