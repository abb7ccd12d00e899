"""Sine and cosine in f32, whose rare large arguments take one branch of a thread.

An argument x is reduced to t = x - j * pi / 2 for the nearest integer j. pi / 2 has three terms, as
of Cody and Waite ("Software Manual for the Elementary Functions", chapter 8): j times the first is
exact in a fused multiply-add while j has 17 bits, that is up to |x| = 2^17. Polynomials give sin(t)
and cos(t), and the lowest bits of j tell which of them is the result, and its sign. On an H200 the
results for all floats up to 2^18 are within 1.55 units in the last place.

Larger arguments take libdevice's function, which has a loop over the digits of 2 / pi. Were it
called for each element, eight elements of a thread would take eight branches around eight loops in
turn; here their instructions interleave, and a kernel has one loop. f64 calls libdevice.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.math import real
from tile.codegen.llvm.arith import element_of
from tile.codegen.llvm.function_builder import Rule
from tile.codegen.llvm.memory import when
from tile.codegen.llvm.types import literal
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import math
from tile.ir.types import F32

LIMIT = 131072.0  # from here on, j has more than 17 bits
TWO_OVER_PI = 0.636619772
# The sum is rounded to an integer, whose lowest bits are those of the float.
ROUNDING = 12582912.0  # 1.5 * 2^23
# The terms of pi / 2, rounded toward zero: as they are positive, the sine of -0 is -0.
TERMS = (1.570796251296997, 7.549789415861596e-08, 5.390302953474238e-15)
# By the square of t, highest powers first: fitted to the relative error of the results for |t| up
# to pi / 4. sin(t) = t + t * t^2 * SINE; cos(t) = 1 + t^2 * COSINE.
SINE = (-0.000195172979, 0.008332178, -0.166666552)
COSINE = (2.43835275e-05, -0.00138866808, 0.0416666195, -0.5)


def trigonometric(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `sin` or `cos`."""
    if element_of(op) is not F32:
        return real(builder, op)
    arguments = builder.values[op.inputs[0]]
    cosine = op.defn is math.cos
    results = {x: _of_small(builder, x, cosine) for x in arguments}
    large = {x: _is_large(builder, x) for x in results}
    any_large = "false"
    for one in large.values():
        any_large = one if any_large == "false" else builder.new(f"or i1 {any_large}, {one}")
    of_large = _function_of_large(builder, f"__nv_{op.name}f")
    before, chosen = builder.block, dict(results)

    def correct() -> None:
        for x, small in results.items():
            exact = builder.new(f"call float {of_large}(float {x})")
            chosen[x] = builder.new(f"select i1 {large[x]}, float {exact}, float {small}")

    end = when(builder, any_large, correct)
    merged = {
        x: builder.phi("float", [(small, before), (chosen[x], end)]) for x, small in results.items()
    }
    builder.values[op.result] = [merged[x] for x in arguments]


def _function_of_large(builder: FunctionBuilder, name: str) -> str:
    """Return a function that calls one of libdevice, once in the code of the kernel."""
    module, symbol = builder.module, f"@large.{name}"
    module.libdevice_functions.add(name)
    module.declare(f"@{name}", f"declare float @{name}(float)")
    return module.declare(
        symbol,
        f"define internal float {symbol}(float %x) noinline {{\n"
        f"  %y = call float @{name}(float %x)\n  ret float %y\n}}",
    )


def _is_large(builder: FunctionBuilder, x: str) -> str:
    magnitude = builder.call("@llvm.fabs.f32", "float", ("float", x))
    return builder.new(f"fcmp ogt float {magnitude}, {literal(LIMIT, F32)}")


def _of_small(builder: FunctionBuilder, x: str, cosine: bool) -> str:
    """Return the sine or cosine of |x| up to LIMIT."""
    shifted = _fma(builder, x, _constant(TWO_OVER_PI), _constant(ROUNDING))
    j = builder.new(f"fsub float {shifted}, {_constant(ROUNDING)}")
    t = x
    for term in TERMS:
        t = _fma(builder, j, _constant(-term), t)
    square = builder.new(f"fmul float {t}, {t}")
    cube = _fma(builder, square, t, _constant(0.0))  # 0, not -0, for t = -0, whose sine then is -0
    sine = _fma(builder, _polynomial(builder, square, SINE), cube, t)
    cosine_of_t = _fma(builder, _polynomial(builder, square, COSINE), square, _constant(1.0))
    quadrant = builder.new(f"bitcast float {shifted} to i32")
    if cosine:  # cos(x) = sin(x + pi / 2)
        quadrant = builder.new(f"add i32 {quadrant}, 1")
    odd = builder.new(f"trunc i32 {quadrant} to i1")
    value = builder.new(f"select i1 {odd}, float {cosine_of_t}, float {sine}")
    sign = builder.new(f"and i32 {builder.new(f'shl i32 {quadrant}, 30')}, {-(1 << 31)}")
    bits = builder.new(f"xor i32 {builder.new(f'bitcast float {value} to i32')}, {sign}")
    return builder.new(f"bitcast i32 {bits} to float")


def _polynomial(builder: FunctionBuilder, x: str, coefficients: tuple[float, ...]) -> str:
    total = _constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = _fma(builder, total, x, _constant(coefficient))
    return total


def _fma(builder: FunctionBuilder, x: str, y: str, z: str) -> str:
    return builder.call("@llvm.fma.f32", "float", ("float", x), ("float", y), ("float", z))


def _constant(value: float) -> str:
    return literal(value, F32)


RULES: dict[OpDef, Rule] = dict.fromkeys((math.sin, math.cos), trigonometric)
