"""The errors that libdevice's functions state, against those that NVIDIA documents.

The tables are those of the CUDA C++ Programming Guide 13, "Mathematical Functions": the greatest
error in units in the last place, relative to the correctly rounded result. What is not named there
and no error is stated for is exact.
"""

from __future__ import annotations

import math

import pytest

from tests.ir.test_libdevice import APPROXIMATE
from tile.ir.semantics.libdevice import SYMBOLS, Symbol
from tile.ir.types import F32

# function: ulp of f32, ulp of f64
DOCUMENTED: dict[str, tuple[float, float]] = {
    "rsqrt": (2, 1),
    "sqrt": (0, 0),
    "cbrt": (1, 1),
    "rcbrt": (1, 1),
    "hypot": (3, 2),
    "rhypot": (2, 1),
    "norm3d": (3, 2),
    "rnorm3d": (2, 1),
    "norm4d": (3, 2),
    "rnorm4d": (2, 1),
    "exp": (2, 1),
    "exp2": (2, 1),
    "exp10": (2, 1),
    "expm1": (1, 1),
    "log": (1, 1),
    "log2": (1, 1),
    "log10": (2, 1),
    "log1p": (1, 1),
    "sin": (2, 2),
    "cos": (2, 2),
    "tan": (4, 2),
    "sinpi": (1, 2),
    "cospi": (1, 2),
    "asin": (2, 2),
    "acos": (2, 2),
    "atan": (2, 2),
    "atan2": (3, 2),
    "sinh": (3, 2),
    "cosh": (2, 1),
    "tanh": (2, 1),
    "asinh": (3, 3),
    "acosh": (4, 3),
    "atanh": (3, 2),
    "pow": (4, 2),
    "erf": (2, 2),
    "erfc": (4, 5),
    "erfinv": (2, 5),
    "erfcinv": (4, 6),
    "erfcx": (4, 4),
    "normcdf": (5, 5),
    "normcdfinv": (5, 8),
    "lgamma": (6, 4),  # for positive operands
    "tgamma": (5, 10),
    "j0": (9, 7),  # up to 8; beyond, `ABSOLUTE`
    "j1": (9, 7),
    "y0": (9, 7),
    "y1": (9, 7),
    "yn": (math.ceil(2 + 2.5 * 10), math.inf),  # for operands below the order; orders are up to 10
    "cyl_bessel_i0": (6, 6),
    "cyl_bessel_i1": (6, 6),
    "fast_dividef": (2, math.inf),
    "fast_expf": (2 + math.floor(1.173 * 10), math.inf),  # for operands up to 10
    "fast_exp10f": (2 + math.floor(2.97 * 5), math.inf),  # up to 5
    "fast_logf": (3, math.inf),  # outside of 1/2 to 2; there, `ABSOLUTE`
    "fast_log2f": (2, math.inf),
    "fast_log10f": (3, math.inf),
    "fast_tanhf": (2**13, math.inf),  # a relative error of 2^-11
}

# function: absolute error of f32, of f64
ABSOLUTE: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("j0", "j1", "jn", "y0", "y1", "yn"), (2.2e-6, 5e-12)),
    "fast_logf": (2**-21.41, 0),
    "fast_log2f": (2**-22, 0),
    "fast_log10f": (2**-24, 0),
    "fast_sinf": (2**-21.41, 0),
    "fast_cosf": (2**-21.19, 0),
}

# Symbols whose stated error is greater, or has nothing to compare with.
DIFFERENT = {
    "__nv_sqrtf": "libdevice's function is sqrt.approx unless a flag of nvcc asks for more",
    "__nv_fast_sinf": "1 ulp: the documented bound is that to the exact result, before rounding",
    "__nv_fast_cosf": "1 ulp: the documented bound is that to the exact result, before rounding",
    "__nv_fast_tanf": "documented as a quotient of the other two",
    "__nv_fast_powf": "documented as exp2(y * __log2f(x))",
    "__nv_jnf": "documented for order 128 alone",
    "__nv_jn": "documented for order 128 alone",
    "__nv_yn": "documented for operands above 1.5 times the order alone",
}


def bounds(symbol: Symbol) -> tuple[float | None, float]:
    """Return the documented errors: in ulp, None if there is no such bound, and absolute."""
    column = 0 if symbol.result is F32 else 1
    ulp = DOCUMENTED.get(symbol.function)
    absolute = ABSOLUTE.get(symbol.function, (0, 0))
    return None if ulp is None else ulp[column], absolute[column]


def promises_more(symbol: Symbol) -> bool:
    """Return True if the stated error is greater than the documented one, or none is documented."""
    ulp, absolute = bounds(symbol)
    return ulp is None or math.isinf(ulp) or symbol.ulp > ulp or symbol.absolute > absolute


@pytest.mark.parametrize("name", sorted(APPROXIMATE))
def test_no_greater_error_is_stated_than_documented(name: str) -> None:
    assert promises_more(SYMBOLS[name]) == (name in DIFFERENT)


def test_tables_name_functions() -> None:
    functions = {symbol.function for symbol in SYMBOLS.values()}
    assert {*DOCUMENTED, *ABSOLUTE} <= functions
    assert DIFFERENT.keys() <= SYMBOLS.keys()
