"""Reference semantics of libdevice, NVIDIA's library of mathematical functions.

The functions are declared in `table`; the other modules compute them.

table          the functions: types, semantics, accuracy
rounding       arithmetic and conversions with a rounding mode
bits           integers and reinterpretation of bits
elementary     roots, remainders, exponents; sine and cosine of multiples of pi
errors         erfc and its relatives, with their inverses
gamma, bessel  the gamma and Bessel functions
piecewise      Taylor polynomials on intervals, of which the last three are made
"""

from tile.ir.semantics.libdevice.table import SYMBOLS, Symbol, functions

__all__ = ["SYMBOLS", "Symbol", "functions"]
