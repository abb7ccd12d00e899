"""Legalize operations that a target's emitter has no rule for.

Casts round once. Machines convert f32 to narrower floats, and f64 to f32. Other casts become
several, of which all but the last are exact, or *round to odd*: towards zero, with a last bit of 1
if that lost bits. Rounding such a number to a narrower float equals rounding the operand itself.

Casts to and from the *8-bit floats* that no machine converts become integer operations. Formats, as
`tile/ir/semantics/cast.py` defines them:

    f8e4m3b15   bias 15; neither infinity nor NaN (Triton's float8e4b15)
    f8e4m3fnuz  bias 8; the only NaN is 0x80, and there is no -0 (float8e4b8)
    f8e5m2fnuz  bias 16; likewise (float8e5b16)

A cast from one of them goes through f32, or f16 if that has the same exponents, which is exact. A
cast to one of them rounds an f32 as other casts do.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.expressions import Encoding, Expression, operands
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.passes import module_pass
from tile.ir.types import (
    BF16,
    F8E4M3B15,
    F8E4M3FNUZ,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    FP8,
    I1,
    I32,
    NARROW_FLOATS,
    U8,
    U16,
    U32,
    Scalar,
    number_of,
)
from tile.simt.target import GENERIC, SimtTarget

SIGN = 0x80
BEYOND = 1 << 17  # more than the largest number of f16 and of 8-bit floats, and exact in f32
ENCODINGS: dict[Scalar, Encoding] = {
    F8E4M3B15: Encoding(3, 15, saturated=0x7E, nan=0x7E, ties_away=True),
    F8E4M3FNUZ: Encoding(3, 8, saturated=0x7F, nan=SIGN),
    F8E5M2FNUZ: Encoding(2, 16, saturated=0x7F, nan=SIGN),
}


def is_emulated(op: Operation) -> bool:
    """Return True for a cast to or from a format of this module."""
    if op.defn is not arith.cast:
        return False
    return op.inputs[0].type.element in ENCODINGS or op["to"] in ENCODINGS


def expand_cast(build: Builder, op: Operation) -> Value:
    """Return the value of a cast for which `is_emulated` holds, computed by other operations."""
    x, to, rounding = Expression(build, op.inputs[0]), op["to"], op["rounding"]
    if x.element is to:
        return x.value
    if x.element in ENCODINGS:
        x = _decode(x, ENCODINGS[x.element])
    if to not in ENCODINGS:
        return x.cast(to).value
    return ENCODINGS[to].encode(_to_f32(x, rounding), rounding).cast(U8).view(to).value


def _decode(x: Expression, encoding: Encoding) -> Expression:
    """Return the numbers as f16 if that has the exponents of the format, else as f32."""
    code = x.view(U8)
    if encoding.bias != F16.exponent_bias:
        return encoding.decode(code.cast(U32))
    code = code.cast(U16)
    magnitude = (code & (SIGN - 1)) << (F16.fp_mantissa_width - encoding.mantissa)
    return (magnitude | ((code & SIGN) << 8)).view(F16)


def is_direct(op: Operation, direct: tuple[Scalar, ...]) -> bool:
    """Return True for a cast that machines have.

    direct: the floats to which the target converts integers and f64 with one rounding.
    """
    source, to = op.inputs[0].type.element, op["to"]
    if source in FP8:
        return to in (BF16, F16, F32, *FP8)
    if not to.is_floating():
        return True
    if op["rounding"] is Rounding.RTZ:
        return (source, to) in ((F64, F32), (F32, F16))
    return to in direct or (source.is_floating() and source is not F64)


def expand_rounding(build: Builder, op: Operation) -> Value:
    """Return the value of another cast, by several."""
    x, to, rounding = Expression(build, op.inputs[0]), op["to"], op["rounding"]
    if x.element in FP8:
        return x.cast(F32).cast(to).value
    if rounding is Rounding.RTZ:
        wide = x.cast(F32, rounding if x.element is F64 else Rounding.RTNE)
        return _toward_zero(wide, to).value
    return _to_f32(x, rounding, exact=to is BF16).cast(to).value


def _toward_zero(x: Expression, to: Scalar) -> Expression:
    """Return an f32 rounded toward zero: its upper bits, or the number below the nearest one."""
    if to is F16:
        return x.cast(F16, Rounding.RTZ)
    if to is BF16:
        is_nan = x.is_(Predicate.NE, x)
        return is_nan.select(x, (x.view(U32) & 0xFFFF0000).view(F32)).cast(BF16)
    nearest = x.cast(to)
    grew = nearest.cast(F32).absolute() > x.absolute()
    return (nearest.view(U8) - grew.cast(U8)).view(to)


def _to_f32(x: Expression, rounding: Rounding, *, exact: bool = False) -> Expression:
    """Return an f32 that rounds to the same narrow float as `x` does.

    exact: also to bf16, which has all large integers in its range.
    """
    if x.element is F64:
        return x.cast(F32, rounding) if rounding is Rounding.RTZ else _odd_f32(x)
    if x.element.is_int() and x.bits >= 32:
        if exact:
            return _odd_f32(x)
        x = x.minimum(BEYOND)
        x = x.maximum(-BEYOND) if x.is_signed else x
    return x.cast(F32)


def _odd_f32(x: Expression) -> Expression:
    """Round an f64 or an integer to odd in f32.

    An integer that rounds to the first number out of range stays that, as it does in bf16.
    """
    nearest = x.cast(F32)
    back = nearest.cast(x.element)
    inexact = back.is_(Predicate.NE, x)
    is_unsigned = x.element.is_int_unsigned()
    grew = back > x if is_unsigned else inexact & ((back > x) ^ (x < 0))
    return ((nearest.view(U32) - grew.cast(U32)) | inexact.cast(U32)).view(F32)


@module_pass("legalize", before=None)
def legalize(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Replace operations that the target's emitter has no rule for (`SimtTarget.ops`).

    An operation without a rule is expanded (`EXPANSIONS`), or left for the emitter to refuse at the
    user's line. Casts that no machine has become several, or integer operations. An operation
    whose rule does not take the narrow floats of its operands is computed in f32, and its result
    rounded. A sum, product, or quotient of narrow floats computed so equals the correctly rounded
    one, since f32 has more than twice their significand bits (Figueroa, "When is double rounding
    innocuous?", 1995); an `fma` is rounded to odd first (`fma_to_odd`).

        %z = add %x, %y : frag<8xbf16>    %a = cast %x {to = f32} : frag<8xf32>
                                          %b = cast %y {to = f32} : frag<8xf32>
                                          %c = add %a, %b : frag<8xf32>
                                          %z = cast %c {to = bf16} : frag<8xbf16>
    """
    for op in list(module.walk()):
        expand = EXPANSIONS.get(op.defn)
        if is_emulated(op):
            op.replace_by([expand_cast(Builder.before(op), op)])
        elif op.defn is arith.cast and not is_direct(op, target.ops.direct):
            op.replace_by([expand_rounding(Builder.before(op), op)])
        elif expand is not None and not target.ops.has(op.defn):
            op.replace_by([expand(Builder.before(op), op)])
    for op in list(module.walk()):
        if target.ops.computes_in_f32(op):
            _in_f32(op)


def _complement(build: Builder, op: Operation) -> Value:
    (x,) = op.inputs
    element = number_of(x.type)
    ones = True if element is I1 else -1 if element.signed else element.max_value
    return build(arith.xor, x, build(arith.const, value=ones, result=x.type))


def _rsqrt(build: Builder, op: Operation) -> Value:
    (x,) = op.inputs
    one = build(arith.const, value=1.0, result=x.type)
    return build(arith.div_rn, one, build(math.sqrt_rn, x))


# How operations are computed by others, which may be expanded or legalized in turn.
EXPANSIONS: dict[OpDef, Callable[[Builder, Operation], Value]] = {
    arith.not_: _complement,
    math.rsqrt: _rsqrt,
}


def _in_f32(op: Operation) -> None:
    wide = [_widened(x) for x in operands(op)]
    x = wide[0]
    result = (
        fma_to_odd(*wide) if op.defn is arith.fma else x.apply(op.defn, *wide[1:], **op.attributes)
    )
    if op.result.type.element in NARROW_FLOATS:
        result = result.cast(op.result.type.element)
    op.replace_by([result.value])


def _widened(x: Expression) -> Expression:
    """Extend a value to f32, which is exact; a constant stays one."""
    number = constant_of(x.value)
    return x.cast(F32) if number is None else x.constant(number, F32)


def fma_to_odd(x: Expression, y: Expression, z: Expression) -> Expression:
    """Return x * y + z of f32 that were narrow floats, rounded to odd.

    Rounding the result to the narrow float then equals one rounding of the exact value, since f32
    has at least two bits more (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008). Products are exact, but for those of bf16 below
    2^-133. Where one overflows, the sum is exact or infinite.

        %s = fma %x, %y, %z     // to nearest
        %e = ..                 // the error of the sum of the product and %z (Knuth)
        %s +- 1 bit             // towards the exact value, where %e is not 0 and %s is even
    """
    total = x.apply(arith.fma, y, z)
    product = x * y
    part = total - product
    error = product - (total - part) + (z - part)
    # Towards the error, where the sum is even and the error smaller than a sum that is a number.
    bits = total.view(I32)
    even = (bits & 1).equals(0)
    inexact = error.is_(Predicate.NE, 0.0)
    within = error.absolute() < total.absolute()
    alike = (bits ^ error.view(I32)) >= 0
    step = alike.select(bits.constant(1), -1)
    return (bits + (even & inexact & within).select(step, 0)).view(total.element)
