"""The bits of floats of at most 8 bits, converted to and from f32 by integer operations.

All formats here have a sign and subnormal numbers. A number beyond the largest one becomes that.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import F32, U32
from tile.transforms.expressions import Expression

F32_BIAS, F32_MANTISSA = 127, 23
F32_INFINITY, F32_NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Encoding:
    """The bits of a format. `saturated` are those of the number to which casts saturate."""

    mantissa: int
    bias: int
    saturated: int
    nan: int  # the bits that a NaN becomes
    ties_away: bool = False  # a cast rounds to nearest with ties away from zero, else to even
    bits: int = 8

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def is_fnuz(self) -> bool:
        """True if the bits of a negative zero are a NaN."""
        return self.nan == self.sign

    def decode(self, code: Expression) -> Expression:
        """Return the f32 with these bits, a u32: the fields moved, or a subnormal number scaled."""
        magnitude, sign = code & (self.sign - 1), (code & self.sign) << (32 - self.bits)
        moved = magnitude << (F32_MANTISSA - self.mantissa)
        normal = moved + ((F32_BIAS - self.bias) << F32_MANTISSA)
        subnormal = magnitude.cast(F32) * 2.0 ** (1 - self.bias - self.mantissa)
        number = (magnitude < (1 << self.mantissa)).select(subnormal.view(U32), normal) | sign
        if self.is_fnuz:
            number = code.equals(self.sign).select(code.constant(F32_NAN), number)
        return number.view(F32)

    def encode(self, x: Expression, rounding: Rounding = Rounding.RTNE) -> Expression:
        """Round an f32; return the bits as u32."""
        bits = x.view(U32)
        magnitude = bits & 0x7FFFFFFF
        number = self._rounded(magnitude, rounding).minimum(self.saturated)
        signed = number | ((bits >> (32 - self.bits)) & self.sign)
        if self.is_fnuz:
            signed = number.equals(0).select(number.constant(0), signed)
        is_nan = magnitude.is_(Predicate.GT, F32_INFINITY)
        return is_nan.select(number.constant(self.nan), signed)

    def _rounded(self, magnitude: Expression, rounding: Rounding) -> Expression:
        """Return the magnitude of an f32 in steps of the format, which count through all exponents.

        Shifting the significand, with its leading one, gives the mantissa. What is below the least
        normal number is shifted further, until the exponent is that of the subnormal numbers. A
        subnormal f32 becomes 0 whatever its leading bit: the shift is 31.
        """
        least = F32_BIAS + 1 - self.bias  # the exponent of the least normal number
        exponent = magnitude >> F32_MANTISSA
        significand = (magnitude & ((1 << F32_MANTISSA) - 1)) | (1 << F32_MANTISSA)
        raised = exponent.maximum(least)
        shift = ((raised - exponent) + (F32_MANTISSA - self.mantissa)).minimum(31)
        if rounding is not Rounding.RTZ:
            half = shift.constant(1) << (shift - 1)
            if not self.ties_away:
                half = (half - 1) + ((significand >> shift) & 1)
            significand = significand + half
        return ((raised - least) << self.mantissa) + (significand >> shift)
