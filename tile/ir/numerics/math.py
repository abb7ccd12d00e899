"""Elementwise functions of floats.

f32 and f64 are as accurate as NumPy's SIMD kernels: a few units in the last place; `sqrt`, `floor`,
`ceil`, `trunc` and `rint` are exact. f16 and bf16 are computed in f32 and rounded once. Arguments
outside a function's domain return NaN. Callers hold `quiet()` around these functions.
"""

from __future__ import annotations

import numpy as np

from tile.ir.dtypes import Array
from tile.ir.numerics.dtypes import (
    BF16,
    F16,
    F32,
    F64,
    ByDtype,
    Unary,
    each,
)
from tile.ir.numerics.erf import erf_f32, erf_f64
from tile.ir.numerics.narrow import through_f32_unary


def _function(name: str, doc: str, f32: Unary, f64: Unary | None = None) -> Unary:
    narrow = each((F16, BF16), through_f32_unary(f32))
    table: ByDtype[Unary] = ByDtype(name, {**narrow, F32: f32, F64: f64 or f32})

    def apply(x: Array) -> Array:
        return table[x.dtype](x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


def _rsqrt(x: Array) -> Array:
    return np.reciprocal(np.sqrt(x))


exp = _function("exp", "e to the power x.", np.exp)
exp2 = _function("exp2", "2 to the power x.", np.exp2)
log = _function("log", "The natural logarithm.", np.log)
log2 = _function("log2", "The logarithm to base 2.", np.log2)
sin = _function("sin", "The sine of x in radians.", np.sin)
cos = _function("cos", "The cosine of x in radians.", np.cos)
tanh = _function("tanh", "The hyperbolic tangent.", np.tanh)
sqrt = _function("sqrt", "The square root, correctly rounded.", np.sqrt)
rsqrt = _function("rsqrt", "1 / sqrt(x) with two roundings.", _rsqrt)
erf = _function(
    "erf", "The error function; within 1 ulp in f32 and 2 ulp in f64.", erf_f32, erf_f64
)
floor = _function("floor", "The greatest integral value that is not above x.", np.floor)
ceil = _function("ceil", "The least integral value that is not below x.", np.ceil)
trunc = _function("trunc", "The integral part of x.", np.trunc)
rint = _function("rint", "The nearest integral value, to even on a tie.", np.rint)
