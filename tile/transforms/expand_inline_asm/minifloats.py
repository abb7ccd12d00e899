"""Floats of 4 and 6 bits, which only `cvt` knows: e2m1, e3m2 and e2m3 (PTX ISA 8.6, 5.2.3).

They have a sign, subnormal numbers, and neither infinity nor NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.types import F32, U32
from tile.transforms.expand_inline_asm.expression import Expression


@dataclass(frozen=True)
class MiniFloat:
    """A format: the bits of its exponent and mantissa, and of a register for each of two."""

    exponent: int
    mantissa: int
    storage: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def largest(self) -> float:
        top = (1 << self.exponent) - 1 - self.bias
        return 2.0**top * (2 - 2.0**-self.mantissa)

    @property
    def register(self) -> int:
        """The bits of a register of two."""
        return 2 * self.storage


MINIFLOATS = {
    "e2m1x2": MiniFloat(2, 1, 4),
    "e3m2x2": MiniFloat(3, 2, 8),
    "e2m3x2": MiniFloat(2, 3, 8),
}


def encode(x: Expression, to: MiniFloat) -> Expression:
    """Round an f32 to nearest even; return the bits as u32.

    A larger number becomes the largest one of its sign, and a NaN the largest positive one.
    """
    bits = x.view(U32)
    sign = x.equals(x).select((bits >> 31) << (to.exponent + to.mantissa), 0)
    size = x.absolute().minimum(to.largest)
    dropped = 23 - to.mantissa
    pattern = size.view(U32)
    odd = (pattern >> dropped) & 1
    rounded = (pattern + odd + ((1 << (dropped - 1)) - 1)) >> dropped
    normal = rounded - ((127 - to.bias) << to.mantissa)
    scale = 2.0 ** (to.bias - 1 + to.mantissa)
    subnormal = (size.minimum(2.0 ** (1 - to.bias)) * scale).call("rintf").cast(U32)
    return sign | (size < 2.0 ** (1 - to.bias)).select(subnormal, normal)


def decode(code: Expression, source: MiniFloat) -> Expression:
    """Return the number with these bits, a u32, as f32."""
    width = source.exponent + source.mantissa
    size = code & ((1 << width) - 1)
    normal = (size << (23 - source.mantissa)) + ((127 - source.bias) << 23)
    unit = 2.0 ** (1 - source.bias - source.mantissa)
    subnormal = (size.cast(F32) * unit).view(U32)
    magnitude = (size < (1 << source.mantissa)).select(subnormal, normal)
    return (magnitude | (((code >> width) & 1) << 31)).view(F32)
