"""Functions in OpenCL C that round to narrow floats by bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Narrow:
    """A float of fewer bits than 32, as f32 is rounded to it.

    `greatest`, which is what greater numbers become, and `nan` are its bits.
    """

    name: str
    held: str
    bits: int
    mantissa: int
    least: int  # the exponent of the least number that is not subnormal
    greatest: int
    nan: int

    def rounding(self) -> str:
        """The function that rounds, which has no branch, so that it can be done in vectors.

        Numbers below the least normal one are rounded by adding one whose last bit is worth as
        much as theirs, others as integers; both are from F. Giesen's conversions of halves (2012).
        Subnormal numbers of f32 may be taken for zeros.
        """
        sign, cut = 1 << (self.bits - 1), 23 - self.mantissa
        offset = (126 + self.least) << 23  # between the exponents of both, in f32
        half = ((1 << (cut - 1)) - 1 - offset) & 0xFFFFFFFF
        greatest, normal = (self.greatest << cut) + offset, (127 + self.least) << 23
        last = self.least - self.mantissa + 23
        return f"""
{self.held} f32_to_{self.name}(float x) {{
  uint sign = as_uint(x) >> {32 - self.bits} & {sign:#x}, size = as_uint(x) & 0x7fffffff;
  uint most = size < {greatest:#x} ? size : {greatest:#x};
  uint small = as_uint(as_float(most) + 0x1p{last}f) - {(127 + last) << 23:#x};
  uint large = (most + {half:#x} + (most >> {cut} & 1)) >> {cut};
  uint number = most < {normal:#x} ? small : large;
  return ({self.held})(sign | (size > 0x7f800000 ? {self.nan:#x} : number));
}}
"""


F16 = Narrow("f16", "ushort", 16, mantissa=10, least=-14, greatest=0x7C00, nan=0x7E00)
F8E4M3 = Narrow("f8e4m3", "uchar", 8, mantissa=3, least=-6, greatest=0x7E, nan=0x7F)
F8E5M2 = Narrow("f8e5m2", "uchar", 8, mantissa=2, least=-14, greatest=0x7B, nan=0x7F)
