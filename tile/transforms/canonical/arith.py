"""Canonicalization of arithmetic: identities that hold for every value of the type, bit for bit.

Floats are not rewritten if a NaN, an infinity, the sign of a zero or a rounding would differ: `x +
0.0` is not `x` for `x = -0.0`, but `x + -0.0` is. Two additions of constants are combined only if
the sum of the constants does not wrap, so that no overflow appears or disappears.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.opdef import OPS, OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.rewriter import Rewriter
from tile.ir.types import Scalar
from tile.transforms.canonical.table import CANONICAL, constant

Number = bool | int | float
OfType = Callable[[Scalar], Number]


def _ones(ty: Scalar) -> Number:
    """All bits set."""
    return True if ty.is_bool() else -1 if ty.is_int_signed() else ty.max_value


def _zero(ty: Scalar) -> Number:
    return False if ty.is_bool() else 0


def _one(ty: Scalar) -> Number:
    return True if ty.is_bool() else 1


def _least(ty: Scalar) -> Number:
    return ty.min_value


def _greatest(ty: Scalar) -> Number:
    return ty.max_value


# The right identity element of integer and boolean operations.
NEUTRAL: dict[OpDef, OfType] = {
    arith.add: _zero,
    arith.sub: _zero,
    arith.mul: _one,
    arith.div: _one,
    arith.and_: _ones,
    arith.or_: _zero,
    arith.xor: _zero,
    arith.shl: _zero,
    arith.shr: _zero,
    arith.min_: _greatest,
    arith.max_: _least,
}
# The right identity element of float operations, also for NaNs, infinities and both zeros.
NEUTRAL_FLOAT: dict[OpDef, float] = {
    arith.add: -0.0,
    arith.sub: 0.0,
    arith.mul: 1.0,
    arith.div: 1.0,
    arith.div_rn: 1.0,
}
# The right operand that determines the result of an integer operation, and the result.
ABSORBING: dict[OpDef, tuple[OfType, OfType]] = {
    arith.mul: (_zero, _zero),
    arith.and_: (_zero, _zero),
    arith.or_: (_ones, _ones),
    arith.rem: (_one, _zero),
    arith.min_: (_least, _least),
    arith.max_: (_greatest, _greatest),
}
# Operations on two equal operands that return the operand itself, or zero.
IDEMPOTENT = (arith.and_, arith.or_, arith.min_, arith.max_)
CANCELLING = (arith.sub, arith.xor)
INVOLUTIONS = (arith.neg, arith.not_)
COMMUTATIVE = tuple(defn for defn in OPS if defn.commutative)
# Operations with (x op c) op d = x op (c op d).
ASSOCIATIVE = (arith.add, arith.mul, arith.and_, arith.or_, arith.xor)
EXACT: dict[OpDef, Callable[[int, int], int]] = {
    arith.add: lambda x, y: x + y,
    arith.mul: lambda x, y: x * y,
}


def scalar(value: Value) -> Scalar:
    """Return the element type of a value that holds numbers."""
    element = value.type.element
    assert isinstance(element, Scalar)
    return element


def is_number(value: Value, number: Number) -> bool:
    """Return True if a value is this constant; 0.0 and -0.0 differ."""
    constant_number = constant_of(value)
    return constant_number is not None and repr(constant_number) == repr(number)


@CANONICAL.pattern(*COMMUTATIVE)
def constant_to_the_right(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    if constant_of(x) is None or constant_of(y) is not None:
        return False
    rewriter.set_operand(op, 0, y)
    rewriter.set_operand(op, 1, x)
    return True


@CANONICAL.pattern(*NEUTRAL, arith.div_rn)
def neutral_operand(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    ty = scalar(x)
    if ty.is_floating():
        neutral: Number | None = NEUTRAL_FLOAT.get(op.defn)
    else:
        neutral = NEUTRAL[op.defn](ty)
    if neutral is None or not is_number(y, neutral):
        return False
    rewriter.replace(op, [x])
    return True


@CANONICAL.pattern(*ABSORBING)
def absorbing_operand(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    ty = scalar(x)
    if ty.is_floating():
        return False
    absorbing, result = ABSORBING[op.defn]
    if not is_number(y, absorbing(ty)):
        return False
    rewriter.replace(op, [constant(op, rewriter, result(ty), x.type)])
    return True


@CANONICAL.pattern(*IDEMPOTENT)
def equal_operands(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    if x is not y:
        return False
    rewriter.replace(op, [x])
    return True


@CANONICAL.pattern(*CANCELLING)
def cancelling_operands(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    if x is not y or scalar(x).is_floating():
        return False
    rewriter.replace(op, [constant(op, rewriter, _zero(scalar(x)), x.type)])
    return True


@CANONICAL.pattern(*INVOLUTIONS)
def double_involution(op: Operation, rewriter: Rewriter) -> bool:
    inner = op.inputs[0].op
    if inner is None or inner.defn is not op.defn:
        return False
    rewriter.replace(op, [inner.inputs[0]])
    return True


@CANONICAL.pattern(arith.sub)
def subtract_constant(op: Operation, rewriter: Rewriter) -> bool:
    """`x - c` is `x + -c`, which combines with other additions."""
    x, y = op.inputs
    ty, number = scalar(x), constant_of(y)
    if not ty.is_int_signed() or number is None or number == ty.min_value:
        return False
    minus = constant(op, rewriter, -number, y.type)
    rewriter.replace(op, [rewriter.build(op, arith.add, x, minus)])
    return True


@CANONICAL.pattern(*ASSOCIATIVE)
def reassociate_constants(op: Operation, rewriter: Rewriter) -> bool:
    inner, right = op.inputs[0].op, op.inputs[1]
    if inner is None or inner.defn is not op.defn or scalar(right).is_floating():
        return False
    left, middle = inner.inputs
    first, second = constant_of(middle), constant_of(right)
    if first is None or second is None:
        return False
    ty = scalar(right)
    exact = EXACT.get(op.defn)
    if exact is None or ty.is_bool():
        fits = True
    else:
        fits = ty.min_value <= exact(int(first), int(second)) <= ty.max_value
    if not fits:
        return False
    joined = rewriter.build(op, op.defn, middle, right)
    rewriter.replace(op, [rewriter.build(op, op.defn, left, joined)])
    return True


@CANONICAL.pattern(arith.hint)
def empty_hint(op: Operation, rewriter: Rewriter) -> bool:
    claims = (op["divisible"], op["contiguous"], op["constant"])
    if any(number != 1 for claim in claims for number in claim):
        return False
    rewriter.replace(op, op.inputs)
    return True


@CANONICAL.pattern(arith.cast)
def cast_to_itself(op: Operation, rewriter: Rewriter) -> bool:
    x = op.inputs[0]
    if x.type != op.result.type:
        return False
    rewriter.replace(op, [x])
    return True


@CANONICAL.pattern(arith.cast)
def cast_of_cast(op: Operation, rewriter: Rewriter) -> bool:
    """Two casts are one if the type in between represents every value of the source type."""
    inner = op.inputs[0].op
    if inner is None or inner.defn is not arith.cast:
        return False
    x = inner.inputs[0]
    first, through, last = scalar(x), scalar(inner.result), scalar(op.result)
    if not _represents(through, first) or not _same_conversion(first, through, last):
        return False
    rounding: Rounding = op["rounding"]
    if _represents(last, first):
        rounding = Rounding.RTNE  # the cast is exact
    elif rounding is not Rounding.RTNE and not (first.is_floating() and first.bits > last.bits):
        return False  # only a cast of a wider float may have another rounding mode
    rewriter.replace(op, [rewriter.build(op, arith.cast, x, to=last, rounding=rounding)])
    return True


# Bits of a float's significand, including the implicit one.
PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
WIDENINGS = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}


def _represents(wide: Scalar, narrow: Scalar) -> bool:
    """Return True if `wide` represents every value of `narrow`."""
    if narrow == wide:
        return True
    if narrow.is_floating():
        return (narrow.name, wide.name) in WIDENINGS
    if narrow.is_bool():
        return wide.name in PRECISION or not wide.is_floating()
    if wide.is_floating():
        return wide.name in PRECISION and narrow.bits <= PRECISION[wide.name]
    if wide.is_bool():
        return False
    return wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value


def _same_conversion(first: Scalar, through: Scalar, last: Scalar) -> bool:
    """Return True if `first` and `through` convert to `last` alike.

    Conversion to an integer saturates from floats but wraps from integers.
    """
    if first.is_int() and through.is_floating() and last.is_int():
        return _represents(last, first)
    return True
