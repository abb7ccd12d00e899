"""Elementwise math functions, `tl.math`; each is in `tl` as well, except those of `ELEMENTARY`.

`tl.math` also has the elementary functions of `tl.extra.libdevice`: `tl.math.log1p` is
`libdevice.log1p`.

Unless documented otherwise, they take `tl.float32` or `tl.float64` and return the same type. A
Python number is `tl.float32` if that type can represent it. Narrower floats and integers are an
error instead of being cast silently.
"""

from __future__ import annotations

from typing import Any

from tile._lazy import LazyNames
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops import math as ops
from tile.ir.types import F32, F64, SCALARS, Scalar
from tile.language.base.builtin import Builtin, builtin, member
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import Operand, as_number, describe, to_tensor, unify
from tile.language.base.static_args import compile_time_bool
from tile.language.base.tensor import Tensor
from tile.language.operators import emit

# The functions that C's `math.h` has, too.
ELEMENTARY = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cosh erfc exp10 expm1 fmod hypot ilogb "
    "isinf isnan ldexp lgamma log10 log1p logb nearbyint nextafter pow remainder rint round "
    "signbit sinh tan tgamma trunc"
)
_SOURCES = dict.fromkeys(ELEMENTARY.split(), "tile.language.extra.libdevice")
__getattr__ = LazyNames(__name__, _SOURCES)
__dir__ = __getattr__.names


def _real(defn: OpDef, doc: str) -> Builtin[[Operand], Tensor]:
    """Declare the function of one real number that emits an operation, under its name."""
    name = f"tl.{defn.name}"

    def function(build: Builder, x: Operand) -> Tensor:
        number = as_number(x)
        tensor = to_tensor(build, x if number is None else float(number), f"the argument of {name}")
        if tensor.dtype not in (F32, F64):
            raise CompilationError(
                f"{name} takes tl.float32 or tl.float64, not {describe(x)}; cast first: "
                f"{name}(x.to(tl.float32))"
            )
        return Tensor(build(defn, tensor.value))

    function.__name__ = function.__qualname__ = defn.name
    function.__doc__ = doc
    return member(function)


exp = _real(
    ops.exp,
    "The exponential function, e to the power `x`. Subnormal results may be flushed to zero.",
)
exp2 = _real(ops.exp2, "2 to the power `x`. Subnormal results may be flushed to zero.")
log = _real(ops.log, "The natural logarithm.")
log2 = _real(ops.log2, "The logarithm to base 2.")
sin = _real(ops.sin, "The sine of `x` radians.")
cos = _real(ops.cos, "The cosine of `x` radians.")
tanh = _real(ops.tanh, "The hyperbolic tangent.")
erf = _real(ops.erf, "The error function.")
sqrt = _real(ops.sqrt, "The square root.")
sqrt_rn = _real(ops.sqrt_rn, "The square root, rounded to nearest.")
rsqrt = _real(ops.rsqrt, "The reciprocal of the square root.")
floor = _real(ops.floor, "The greatest integer not above `x`, as a float.")
ceil = _real(ops.ceil, "The least integer not below `x`, as a float.")


@member
def abs(build: Builder, x: Operand) -> Any:
    """The absolute value of floats and integers of any width; the least integer is its own.

    The result of a compile-time number is a compile-time number.
    """
    number = as_number(x)
    if number is not None:
        return number if number >= 0 else -number
    tensor = to_tensor(build, x, "the argument of tl.abs")
    if tensor.dtype.is_bool() or tensor.dtype.is_int_unsigned():
        return tensor
    return emit(build, "tl.abs", ops.abs_, tensor)


@builtin
def fma(build: Builder, x: Operand, y: Operand, z: Operand) -> Tensor:
    """The fused multiply-add `x * y + z` of floats, rounded once; operands are promoted."""
    a, b = unify(build, "tl.fma", x, y)
    a, c = unify(build, "tl.fma", a, z)
    a, b = unify(build, "tl.fma", a, b)
    return emit(build, "tl.fma", arith.fma, a, b, c)


@builtin
def fdiv(
    build: Builder, x: Operand, y: Operand, ieee_rounding: bool = False, approx: bool = False
) -> Tensor:
    """The quotient `x / y` of floats, in their own type; rounded to nearest if `ieee_rounding`.

    `approx` permits a less accurate quotient, but it is that of `x / y`. Raises `CompilationError`
    if neither is a float, and for `approx` with `ieee_rounding`.
    """
    a, b = unify(build, "tl.fdiv", x, y)
    if not a.dtype.is_floating():
        raise CompilationError(
            f"tl.fdiv divides floats, not {describe(x)} and {describe(y)}; write x / y"
        )
    exact = compile_time_bool(ieee_rounding, "the ieee_rounding of tl.fdiv")
    if exact and compile_time_bool(approx, "the approx of tl.fdiv"):
        raise CompilationError("tl.fdiv takes ieee_rounding or approx, not both")
    return emit(build, "tl.fdiv", arith.div_rn if exact else arith.div, a, b)


@builtin
def div_rn(build: Builder, x: Operand, y: Operand) -> Tensor:
    """The quotient `x / y` of `tl.float32` or `tl.float64`, rounded to nearest."""
    a, b = unify(build, "tl.div_rn", x, y)
    if a.dtype not in (F32, F64):
        raise CompilationError(
            f"tl.div_rn takes tl.float32 or tl.float64, not {describe(x)} and {describe(y)}; cast "
            "first: x.to(tl.float32)"
        )
    return emit(build, "tl.div_rn", arith.div_rn, a, b)


@builtin
def umulhi(build: Builder, x: Operand, y: Operand) -> Tensor:
    """The high half of the product of `x` and `y` as unsigned integers of 32 or 64 bits.

    Signed operands and results are reinterpreted as unsigned.
    """
    a, b = unify(build, "tl.umulhi", x, y)
    element = a.dtype
    if not isinstance(element, Scalar) or element.bits < 32 or not element.is_int():
        raise CompilationError(
            f"tl.umulhi takes integers of 32 or 64 bits, not {spelled(element)}; cast first: "
            f"x.to(tl.uint32)"
        )
    unsigned = SCALARS[f"u{element.bits}"]
    if not element.signed:
        return emit(build, "tl.umulhi", arith.mulhi, a, b)
    left, right = (build(arith.bitcast, x.value, to=unsigned) for x in (a, b))
    return Tensor(build(arith.bitcast, build(arith.mulhi, left, right), to=element))
