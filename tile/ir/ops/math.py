"""Elementwise functions of real numbers, on f32 and f64.

`ulp` is the greatest error allowed to a backend for values in `domain`, relative to the exact
result rounded to nearest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.declare import elementwise
from tile.ir.numpy_dtypes import Unary
from tile.ir.op_definition import OpDef
from tile.ir.ops.arith import NUMBERS
from tile.ir.types import F32, F64

REALS = (F32, F64)


def declare(name: str, doc: str, f32: Unary, f64: Unary | None = None, **properties: Any) -> OpDef:
    """Declare a function from its reference semantics on f32, and on f64 if that differs."""
    apply = semantics.elementwise(f32, f64)
    return elementwise(__name__, name, 1, doc, accepts=REALS, semantics=apply, **properties)


exp = declare(
    "exp",
    "e to the power `x`. A result below the least normal number may be zero.",
    np.exp,
    ulp=3,
    domain=(-87, 88),
)
exp2 = declare(
    "exp2",
    "2 to the power `x`. A result below the least normal number may be zero.",
    np.exp2,
    ulp=2,
    domain=(-126, 127),
)
log = declare("log", "The natural logarithm.", np.log, ulp=3, domain=(1e-30, 1e30))
log2 = declare("log2", "The logarithm to base 2.", np.log2, ulp=3, domain=(1e-30, 1e30))
sin = declare("sin", "The sine of `x` radians.", np.sin, ulp=4, domain=(-100, 100))
cos = declare("cos", "The cosine of `x` radians.", np.cos, ulp=4, domain=(-100, 100))
tanh = declare("tanh", "The hyperbolic tangent.", np.tanh, ulp=4, domain=(-20, 20))
erf = declare(
    "erf", "The error function.", semantics.erf_f32, semantics.erf_f64, ulp=4, domain=(-6, 6)
)
sqrt = declare("sqrt", "The square root.", np.sqrt, ulp=2, domain=(0, 1e30))
sqrt_rn = declare("sqrt_rn", "The square root rounded to nearest.", np.sqrt, domain=(0, 1e30))
rsqrt = declare("rsqrt", "One over the square root.", semantics.rsqrt, ulp=2, domain=(1e-30, 1e30))
floor = declare("floor", "The greatest integer not above `x`.", np.floor)
ceil = declare("ceil", "The least integer not below `x`.", np.ceil)
abs_ = elementwise(
    __name__,
    "abs",
    1,
    "The absolute value; the least integer is its own.",
    accepts=NUMBERS,
    semantics=semantics.absolute,
)
