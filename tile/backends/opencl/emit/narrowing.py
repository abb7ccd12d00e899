"""Helper functions in OpenCL C that round f32 to narrow floats by its bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Narrow:
    """A float format of fewer than 32 bits to which f32 is rounded."""

    name: str
    carrier: str  # the C type of its bits
    bits: int
    mantissa: int
    least: int  # the exponent of the least normal number
    greatest: int  # the bits of the number, or infinity, to which greater numbers are rounded
    nan: int  # the bits of a NaN

    def rounding(self) -> str:
        """Return the function that rounds, which has no branches, so that it can be vectorized.

        Below the least normal number, adding a number with the same unit in the last place rounds;
        other numbers are rounded by integer arithmetic. Both are from F. Giesen's conversions of
        f16 (2012). Subnormal numbers of f32 may be flushed to zero.
        """
        sign, cut = 1 << (self.bits - 1), 23 - self.mantissa
        offset = (126 + self.least) << 23  # between the exponents of both, in f32
        half = ((1 << (cut - 1)) - 1 - offset) & 0xFFFFFFFF
        greatest, normal = (self.greatest << cut) + offset, (127 + self.least) << 23
        last = self.least - self.mantissa + 23
        return f"""
{self.carrier} f32_to_{self.name}(float x) {{
  uint sign = as_uint(x) >> {32 - self.bits} & {sign:#x}, size = as_uint(x) & 0x7fffffff;
  uint most = size < {greatest:#x} ? size : {greatest:#x};
  uint small = as_uint(as_float(most) + 0x1p{last}f) - {(127 + last) << 23:#x};
  uint large = (most + {half:#x} + (most >> {cut} & 1)) >> {cut};
  uint number = most < {normal:#x} ? small : large;
  return ({self.carrier})(sign | (size > 0x7f800000 ? {self.nan:#x} : number));
}}
"""


F16 = Narrow("f16", "ushort", 16, mantissa=10, least=-14, greatest=0x7C00, nan=0x7E00)
F8E4M3 = Narrow("f8e4m3", "uchar", 8, mantissa=3, least=-6, greatest=0x7E, nan=0x7F)
F8E5M2 = Narrow("f8e5m2", "uchar", 8, mantissa=2, least=-14, greatest=0x7B, nan=0x7F)
