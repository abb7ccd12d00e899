"""Elementwise functions of real numbers, on f32 and f64.

`ulp` is the greatest error allowed to a backend for values in `domain`, relative to the exact
result rounded to nearest.
"""

from __future__ import annotations

from functools import partial

from tile.ir import semantics
from tile.ir.declare import elementwise
from tile.ir.ops.arith import NUMBERS
from tile.ir.types import F32, F64

REALS = (F32, F64)
declare = partial(elementwise, __name__, accepts=REALS)

exp = declare("exp", 1, "e to the power `x`.", semantics=semantics.exp, ulp=2, domain=(-80, 80))
exp2 = declare(
    "exp2",
    1,
    "2 to the power `x`. A result below the least normal number may be zero.",
    semantics=semantics.exp2,
    ulp=2,
    domain=(-120, 120),
)
log = declare(
    "log", 1, "The natural logarithm.", semantics=semantics.log, ulp=3, domain=(1e-30, 1e30)
)
log2 = declare(
    "log2", 1, "The logarithm to base 2.", semantics=semantics.log2, ulp=3, domain=(1e-30, 1e30)
)
sin = declare(
    "sin", 1, "The sine of `x` radians.", semantics=semantics.sin, ulp=4, domain=(-100, 100)
)
cos = declare(
    "cos", 1, "The cosine of `x` radians.", semantics=semantics.cos, ulp=4, domain=(-100, 100)
)
tanh = declare(
    "tanh", 1, "The hyperbolic tangent.", semantics=semantics.tanh, ulp=4, domain=(-20, 20)
)
erf = declare("erf", 1, "The error function.", semantics=semantics.erf, ulp=4, domain=(-6, 6))
sqrt = declare("sqrt", 1, "The square root.", semantics=semantics.sqrt, ulp=2, domain=(0, 1e30))
sqrt_rn = declare(
    "sqrt_rn", 1, "The square root rounded to nearest.", semantics=semantics.sqrt, domain=(0, 1e30)
)
rsqrt = declare(
    "rsqrt", 1, "One over the square root.", semantics=semantics.rsqrt, ulp=2, domain=(1e-30, 1e30)
)
floor = declare("floor", 1, "The greatest integer not above `x`.", semantics=semantics.floor)
ceil = declare("ceil", 1, "The least integer not below `x`.", semantics=semantics.ceil)
abs_ = elementwise(
    __name__,
    "abs",
    1,
    "The absolute value; the least integer is its own.",
    accepts=NUMBERS,
    semantics=semantics.absolute,
)
