"""The functions of libdevice: one row for each symbol of its bitcode.

A *function* such as `exp` has a *symbol* for each tuple of operand types: `__nv_expf` and
`__nv_exp`. Bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions". Functions
of f32 are computed in f64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.ir.numpy_dtypes import F32, F64, Array
from tile.ir.semantics.arith import mulhi
from tile.ir.semantics.erf import erf_f64
from tile.ir.semantics.libdevice import (
    bessel,
    bits,
    elementary,
    errors,
    gamma,
    rounding,
)
from tile.ir.semantics.libdevice.elementary import classify, in_f64
from tile.ir.semantics.math import fma
from tile.ir.types import SCALARS, Scalar

Function = Callable[..., Array]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Symbol:
    """A function of libdevice for some operand types.

    semantics: a function of NumPy arrays. A backend's result may differ from the exact one by
    `ulp` units in the last place plus `absolute`, for float operands in `domain`. orders: the
    integer operands for which that holds.
    """

    name: str
    function: str
    operands: tuple[Scalar, ...]
    result: Scalar
    semantics: Function
    ulp: float = 0
    absolute: float = 0
    domain: Interval | None = None
    orders: tuple[int, int] | None = None

    @property
    def signature(self) -> str:
        """The types as text: `(f32, i32) -> f32`."""
        return f"({', '.join(map(str, self.operands))}) -> {self.result}"


def row(symbol: str, function: str, signature: str, semantics: Function, **accuracy: Any) -> Symbol:
    """Return a row; `signature` is such as `f32 i32 -> f32`."""
    operands, _, result = signature.partition(" -> ")
    types_ = tuple(SCALARS[name] for name in operands.split())
    return Symbol(f"__nv_{symbol}", function, types_, SCALARS[result], semantics, **accuracy)


def both(
    function: str,
    semantics: Function,
    ulp: tuple[float, float] = (0, 0),
    *,
    operands: int = 1,
    absolute: tuple[float, float] = (0, 0),
    **accuracy: Any,
) -> list[Symbol]:
    """Return the rows of a function of f32 and of f64.

    ulp, absolute: for f32 and for f64. A function without an error takes f32 directly.
    """
    exact = ulp == (0, 0)
    narrow = semantics if exact else in_f64(semantics)
    return [
        row(
            function + suffix,
            function,
            " ".join([ty] * operands) + f" -> {ty}",
            apply,
            ulp=ulp[index],
            absolute=absolute[index],
            **accuracy,
        )
        for index, (ty, suffix, apply) in enumerate((("f32", "f", narrow), ("f64", "", semantics)))
    ]


def of_integer_order(
    function: str, semantics: Function, ulp: tuple[float, float], absolute: tuple[float, float]
) -> list[Symbol]:
    """Return the rows of a function of an i32 and an f32 or f64."""
    applies = (in_f64(semantics), semantics)
    return [
        row(
            function + suffix,
            function,
            f"i32 {ty} -> {ty}",
            applies[index],
            ulp=ulp[index],
            absolute=absolute[index],
            domain=(0.1, 100),
            orders=(0, 10),
        )
        for index, (ty, suffix) in enumerate((("f32", "f"), ("f64", "")))
    ]


def rounded(
    function: str, make: Callable[[str], Function], operands: int, names: tuple[str, str]
) -> list[Symbol]:
    """Return the rows of an operation in all rounding modes; `names` of f32 and f64 without it."""
    signatures = {ty: " ".join([ty] * operands) + f" -> {ty}" for ty in ("f32", "f64")}
    return [
        row(f"{name}_{mode}", f"{function}_{mode}", signatures[ty], make(mode))
        for mode in rounding.MODES
        for name, ty in zip(names, signatures, strict=True)
    ]


def conversions(
    source: str, to: str, make: Callable[[str], Function], signature: str
) -> list[Symbol]:
    """Return the rows of a conversion in all rounding modes."""
    names = [f"{source}2{to}_{mode}" for mode in rounding.MODES]
    return [row(n, n, signature, make(mode)) for n, mode in zip(names, rounding.MODES, strict=True)]


def fast(
    symbol: str,
    semantics: Function,
    ulp: float,
    domain: Interval,
    *,
    operands: int = 1,
    absolute: float = 0,
    function: str = "",
) -> Symbol:
    """Return the row of an approximation on f32."""
    signature = " ".join(["f32"] * operands) + " -> f32"
    apply = in_f64(semantics)
    return row(
        symbol, function or symbol, signature, apply, ulp=ulp, absolute=absolute, domain=domain
    )


def _to_integer(dtype: str, result: str) -> Callable[[str], Function]:
    return lambda mode: rounding.float_to_int(np.dtype(dtype), mode, np.dtype(result))


def _nearest_integer(x: Array) -> Array:
    return rounding.float_to_int(np.dtype("i8"), "rz")(elementary.nearest_away(x))


def _from_integer(dtype: np.dtype[Any]) -> Callable[[str], Function]:
    return lambda mode: rounding.int_to_float(dtype, mode)


def _view(dtype: str) -> Function:
    return lambda x: x.view(np.dtype(dtype))


BITS = [
    row("clz", "clz", "i32 -> i32", bits.clz),
    row("clzll", "clz", "i64 -> i32", bits.clz),
    row("popc", "popc", "i32 -> i32", bits.popc),
    row("popcll", "popc", "i64 -> i32", bits.popc),
    row("brev", "brev", "i32 -> i32", bits.brev),
    row("brevll", "brev", "i64 -> i64", bits.brev),
    row("ffs", "ffs", "i32 -> i32", bits.ffs),
    row("ffsll", "ffs", "i64 -> i32", bits.ffs),
    row("byte_perm", "byte_perm", "i32 i32 i32 -> i32", bits.byte_perm),
    row("mulhi", "mulhi", "i32 i32 -> i32", mulhi),
    row("umulhi", "mulhi", "u32 u32 -> u32", mulhi),
    row("mul64hi", "mulhi", "i64 i64 -> i64", mulhi),
    row("umul64hi", "mulhi", "u64 u64 -> u64", mulhi),
    row("mul24", "mul24", "i32 i32 -> i32", bits.mul24),
    row("umul24", "mul24", "u32 u32 -> u32", bits.mul24),
    row("sad", "sad", "i32 i32 u32 -> i32", bits.sad),
    row("usad", "sad", "u32 u32 u32 -> u32", bits.sad),
    row("hadd", "hadd", "i32 i32 -> i32", bits.hadd),
    row("uhadd", "hadd", "u32 u32 -> u32", bits.hadd),
    row("rhadd", "rhadd", "i32 i32 -> i32", bits.rhadd),
    row("urhadd", "rhadd", "u32 u32 -> u32", bits.rhadd),
    row("abs", "abs", "i32 -> i32", np.abs),
    row("llabs", "abs", "i64 -> i64", np.abs),
    row("int_as_float", "int_as_float", "i32 -> f32", _view("f4")),
    row("uint_as_float", "uint_as_float", "u32 -> f32", _view("f4")),
    row("float_as_int", "float_as_int", "f32 -> i32", _view("i4")),
    row("float_as_uint", "float_as_uint", "f32 -> i32", _view("i4")),
    row("longlong_as_double", "longlong_as_double", "i64 -> f64", _view("f8")),
    row("double_as_longlong", "double_as_longlong", "f64 -> i64", _view("i8")),
    row("hiloint2double", "hiloint2double", "i32 i32 -> f64", bits.hiloint2double),
    row("double2loint", "double2loint", "f64 -> i32", bits.double2loint),
    row("double2hiint", "double2hiint", "f64 -> i32", bits.double2hiint),
]

ROUNDED = [
    *rounded("add", rounding.add, 2, ("fadd", "dadd")),
    *rounded("sub", rounding.sub, 2, ("fsub", "dsub")),
    *rounded("mul", rounding.mul, 2, ("fmul", "dmul")),
    *rounded("div", rounding.div, 2, ("fdiv", "ddiv")),
    *rounded("rcp", rounding.rcp, 1, ("frcp", "drcp")),
    *rounded("sqrt", rounding.sqrt, 1, ("fsqrt", "dsqrt")),
    *rounded("fma", rounding.fma_in, 3, ("fmaf", "fma")),
    row("frsqrt_rn", "rsqrt_rn", "f32 -> f32", rounding.rsqrt_rn),
]

CONVERSIONS = [
    *conversions("double", "float", rounding.float_to_float, "f64 -> f32"),
    *conversions("double", "int", _to_integer("i4", "i4"), "f64 -> i32"),
    *conversions("double", "uint", _to_integer("u4", "i4"), "f64 -> i32"),
    *conversions("double", "ll", _to_integer("i8", "i8"), "f64 -> i64"),
    *conversions("double", "ull", _to_integer("u8", "i8"), "f64 -> i64"),
    *conversions("float", "int", _to_integer("i4", "i4"), "f32 -> i32"),
    *conversions("float", "uint", _to_integer("u4", "i4"), "f32 -> i32"),
    *conversions("float", "ll", _to_integer("i8", "i8"), "f32 -> i64"),
    *conversions("float", "ull", _to_integer("u8", "i8"), "f32 -> i64"),
    *conversions("int", "float", _from_integer(F32), "i32 -> f32"),
    *conversions("uint", "float", _from_integer(F32), "u32 -> f32"),
    *conversions("ll", "float", _from_integer(F32), "i64 -> f32"),
    *conversions("ull", "float", _from_integer(F32), "u64 -> f32"),
    *conversions("ll", "double", _from_integer(F64), "i64 -> f64"),
    *conversions("ull", "double", _from_integer(F64), "u64 -> f64"),
    row("int2double_rn", "int2double_rn", "i32 -> f64", lambda x: x.astype(F64)),
    row("uint2double_rn", "uint2double_rn", "u32 -> f64", lambda x: x.astype(F64)),
    row("llrintf", "llrint", "f32 -> i64", _to_integer("i8", "i8")("rn")),
    row("llrint", "llrint", "f64 -> i64", _to_integer("i8", "i8")("rn")),
    row("llroundf", "llround", "f32 -> i64", _nearest_integer),
    row("llround", "llround", "f64 -> i64", _nearest_integer),
]

EXACT = [
    *both("floor", np.floor),
    *both("ceil", np.ceil),
    *both("trunc", np.trunc),
    *both("rint", np.rint),
    *both("nearbyint", np.rint),
    *both("round", elementary.nearest_away),
    row("fabsf", "abs", "f32 -> f32", np.abs),
    row("fabs", "abs", "f64 -> f64", np.abs),
    *both("fma", fma, operands=3),
    *both("fmod", np.fmod, operands=2),
    *both("remainder", elementary.remainder, operands=2),
    *both("fdim", elementary.fdim, operands=2),
    *both("copysign", np.copysign, operands=2),
    *both("nextafter", np.nextafter, operands=2),
    *both("logb", elementary.logb),
    row("ilogbf", "ilogb", "f32 -> i32", elementary.ilogb),
    row("ilogb", "ilogb", "f64 -> i32", elementary.ilogb),
    row("ldexpf", "ldexp", "f32 i32 -> f32", elementary.ldexp),
    row("ldexp", "ldexp", "f64 i32 -> f64", elementary.ldexp),
    row("scalbnf", "scalbn", "f32 i32 -> f32", elementary.ldexp),
    row("scalbn", "scalbn", "f64 i32 -> f64", elementary.ldexp),
    row("powif", "pow", "f32 i32 -> f32", elementary.powi),
    row("powi", "pow", "f64 i32 -> f64", elementary.powi),
    row("saturatef", "saturatef", "f32 -> f32", elementary.saturate),
    row("isnanf", "isnan", "f32 -> i32", classify(np.isnan)),
    row("isnand", "isnan", "f64 -> i32", classify(np.isnan)),
    row("isinff", "isinf", "f32 -> i32", classify(np.isinf)),
    row("isinfd", "isinf", "f64 -> i32", classify(np.isinf)),
    row("signbitf", "signbit", "f32 -> i32", classify(np.signbit)),
    row("signbitd", "signbit", "f64 -> i32", classify(np.signbit)),
    row("finitef", "finitef", "f32 -> i32", classify(np.isfinite)),
    row("isfinited", "isfinited", "f64 -> i32", classify(np.isfinite)),
]

POSITIVE = (1e-30, 1e30)
UNIT = (-1, 1)

ELEMENTARY = [
    *both("exp", np.exp, (2, 1), domain=(-80, 80)),
    *both("exp2", np.exp2, (2, 1), domain=(-120, 120)),
    *both("exp10", elementary.exp10, (2, 1), domain=(-35, 35)),
    *both("expm1", np.expm1, (1, 1), domain=(-80, 80)),
    *both("log", np.log, (1, 1), domain=POSITIVE),
    *both("log2", np.log2, (1, 1), domain=POSITIVE),
    *both("log10", np.log10, (2, 1), domain=POSITIVE),
    *both("log1p", np.log1p, (1, 1), domain=POSITIVE),
    *both("pow", np.power, (4, 2), operands=2, domain=(0.05, 20)),
    *both("sin", np.sin, (2, 2), domain=(-100, 100)),
    *both("cos", np.cos, (2, 2), domain=(-100, 100)),
    *both("tan", np.tan, (4, 2), domain=(-100, 100)),
    *both("sinpi", elementary.sinpi, (1, 2), domain=(-100, 100)),
    *both("cospi", elementary.cospi, (1, 2), domain=(-100, 100)),
    *both("asin", np.arcsin, (2, 2), domain=UNIT),
    *both("acos", np.arccos, (2, 2), domain=UNIT),
    *both("atan", np.arctan, (2, 2)),
    *both("atan2", np.arctan2, (3, 2), operands=2),
    *both("sinh", np.sinh, (3, 2), domain=(-80, 80)),
    *both("cosh", np.cosh, (2, 1), domain=(-80, 80)),
    *both("tanh", np.tanh, (2, 1), domain=(-20, 20)),
    *both("asinh", np.arcsinh, (3, 3)),
    *both("acosh", np.arccosh, (4, 3), domain=(1, 1e30)),
    *both("atanh", np.arctanh, (3, 2), domain=UNIT),
    *both("sqrt", np.sqrt, (1, 0), domain=POSITIVE),
    *both("rsqrt", rounding.rsqrt, (2, 1), domain=POSITIVE),
    *both("cbrt", elementary.cbrt, (1, 1)),
    *both("rcbrt", elementary.rcbrt, (1, 1)),
    *both("hypot", elementary.norm, (3, 2), operands=2),
    *both("rhypot", elementary.rnorm, (2, 1), operands=2),
    *both("norm3d", elementary.norm, (3, 2), operands=3),
    *both("rnorm3d", elementary.rnorm, (2, 1), operands=3),
    *both("norm4d", elementary.norm, (3, 2), operands=4),
    *both("rnorm4d", elementary.rnorm, (2, 1), operands=4),
]

SPECIAL = [
    *both("erf", erf_f64, (2, 2), domain=(-6, 6)),
    *both("erfc", errors.erfc, (4, 5), domain=(-9, 9)),
    *both("erfcx", errors.erfcx, (4, 4), domain=(-9, 1e4)),
    *both("erfinv", errors.erfinv, (2, 5), domain=UNIT),
    *both("erfcinv", errors.erfcinv, (4, 6), domain=(1e-30, 2)),
    *both("normcdf", errors.normcdf, (5, 5), domain=(-12, 12)),
    *both("normcdfinv", errors.normcdfinv, (5, 8), domain=(1e-30, 1)),
    *both("lgamma", gamma.lgamma, (6, 4), domain=(1e-30, 1e30)),
    *both("tgamma", gamma.tgamma, (5, 10), domain=(1e-30, 30)),
    *both("j0", bessel.j(0), (9, 7), absolute=(2.2e-6, 5e-12), domain=(-1e3, 1e3)),
    *both("j1", bessel.j(1), (9, 7), absolute=(2.2e-6, 5e-12), domain=(-1e3, 1e3)),
    *both("y0", bessel.y(0), (9, 7), absolute=(2.2e-6, 5e-12), domain=(1e-3, 1e3)),
    *both("y1", bessel.y(1), (9, 7), absolute=(2.2e-6, 5e-12), domain=(1e-3, 1e3)),
    *both("cyl_bessel_i0", bessel.i(0), (6, 6), domain=(-80, 80)),
    *both("cyl_bessel_i1", bessel.i(1), (6, 6), domain=(-80, 80)),
    *of_integer_order("jn", bessel.jn, (80, 80), absolute=(2.2e-6, 5e-12)),
    *of_integer_order("yn", bessel.yn, (27, 80), absolute=(2.2e-6, 5e-12)),
]

# Approximations by the instructions of the GPU, without the accuracy of the functions above.
FAST = [
    fast("fast_fdividef", np.divide, 2, (1e-15, 1e15), operands=2, function="fast_dividef"),
    fast("fast_expf", np.exp, 13, (-10, 10)),
    fast("fast_exp10f", elementary.exp10, 16, (-5, 5)),
    fast("fast_logf", np.log, 3, POSITIVE, absolute=2**-21.41),
    fast("fast_log2f", np.log2, 2, POSITIVE, absolute=2**-22),
    fast("fast_log10f", np.log10, 3, POSITIVE, absolute=2**-24),
    fast("fast_powf", np.power, 8, (0.5, 2), operands=2),
    fast("fast_sinf", np.sin, 1, (-math.pi, math.pi), absolute=2**-21.41),
    fast("fast_cosf", np.cos, 1, (-math.pi, math.pi), absolute=2**-21.19),
    fast("fast_tanf", np.tan, 8, UNIT, absolute=2**-18),
    fast("fast_tanhf", np.tanh, 2**13, (-20, 20)),
    row("rcp64h", "rcp64h", "f64 -> f64", bits.rcp64h, ulp=2**34, domain=POSITIVE),
]

SYMBOLS: dict[str, Symbol] = {
    symbol.name: symbol
    for symbol in (*BITS, *ROUNDED, *CONVERSIONS, *EXACT, *ELEMENTARY, *SPECIAL, *FAST)
}


def functions() -> dict[str, list[Symbol]]:
    """Return the functions by name, each with its symbols."""
    result: dict[str, list[Symbol]] = {}
    for symbol in SYMBOLS.values():
        result.setdefault(symbol.function, []).append(symbol)
    return result
