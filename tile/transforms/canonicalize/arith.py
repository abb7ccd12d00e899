"""Canonicalization of arithmetic, comparisons, selects and dots.

Identities of arithmetic hold for every value of the type, bit for bit. Floats are not rewritten if
a NaN, an infinity, the sign of a zero or a rounding would differ: `x + 0.0` is not `x` for
`x = -0.0`, but `x + -0.0` is. Two additions of constants are combined only if the sum of the
constants does not wrap, so that no overflow appears or disappears.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.core import OpDef, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.ops import dot as dot_ops
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.rewriter import Rewriter
from tile.ir.types import I1, Pointer, Scalar
from tile.transforms.canonicalize.patterns import CANONICAL, constant

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


@CANONICAL.pattern(where=lambda defn: defn.commutative)
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


REFLEXIVE = frozenset({Predicate.EQ, Predicate.LE, Predicate.GE})
STRICT = frozenset({Predicate.LT, Predicate.GT})
EQUALITY = frozenset({Predicate.EQ, Predicate.NE})


def _ordered(value: Value) -> bool:
    """Return True if all values of the type are ordered: all types but floats, which have NaNs."""
    element = value.type.element
    return isinstance(element, Pointer) or not element.is_floating()


@CANONICAL.pattern(arith.cmp)
def constant_on_the_left(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    if constant_of(x) is None or constant_of(y) is not None:
        return False
    value = rewriter.build(op, arith.cmp, y, x, predicate=op["predicate"].swapped)
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(arith.cmp)
def compared_with_itself(op: Operation, rewriter: Rewriter) -> bool:
    """`x < x` is false even for a NaN; `x == x` is true only without NaNs."""
    x, y = op.inputs
    if x is not y or not (op["predicate"] in STRICT or _ordered(x)):
        return False
    holds = op["predicate"] in REFLEXIVE
    rewriter.replace(op, [constant(op, rewriter, holds, op.result.type)])
    return True


@CANONICAL.pattern(arith.cmp)
def boolean_compared_with_constant(op: Operation, rewriter: Rewriter) -> bool:
    """A boolean compared with a constant is itself or its negation."""
    x, y = op.inputs
    truth = constant_of(y)
    if x.type.element != I1 or truth is None or op["predicate"] not in EQUALITY:
        return False
    same = truth == (op["predicate"] is Predicate.EQ)
    rewriter.replace(op, [x if same else rewriter.build(op, arith.not_, x)])
    return True


@CANONICAL.pattern(arith.cmp)
def cast_boolean_compared_with_zero(op: Operation, rewriter: Rewriter) -> bool:
    """A boolean cast to a number and compared with zero is itself or its negation."""
    x, y = op.inputs
    source = x.op
    if source is None or source.defn is not arith.cast or op["predicate"] not in EQUALITY:
        return False
    truth = source.inputs[0]
    if truth.type.element != I1 or constant_of(y) != 0:
        return False
    same = op["predicate"] is Predicate.NE
    rewriter.replace(op, [truth if same else rewriter.build(op, arith.not_, truth)])
    return True


@CANONICAL.pattern(arith.not_)
def not_of_a_comparison(op: Operation, rewriter: Rewriter) -> bool:
    """Use the negated predicate; for floats this is exact for equality only."""
    inner = op.inputs[0].op
    if inner is None or inner.defn is not arith.cmp:
        return False
    x, y = inner.inputs
    if not (_ordered(x) or inner["predicate"] in EQUALITY):
        return False
    value = rewriter.build(op, arith.cmp, x, y, predicate=inner["predicate"].negated)
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(arith.select)
def select_by_constant(op: Operation, rewriter: Rewriter) -> bool:
    """A select by a constant, or between equal values, is one of them."""
    condition, x, y = op.inputs
    truth = constant_of(condition)
    if truth is None and x is not y:
        return False
    rewriter.replace(op, [y if truth is False else x])
    return True


@CANONICAL.pattern(arith.select)
def select_of_booleans(op: Operation, rewriter: Rewriter) -> bool:
    """A select between true and false is the condition or its negation."""
    condition, x, y = op.inputs
    if is_number(x, True) and is_number(y, False):
        rewriter.replace(op, [condition])
        return True
    if is_number(x, False) and is_number(y, True):
        rewriter.replace(op, [rewriter.build(op, arith.not_, condition)])
        return True
    return False


@CANONICAL.pattern(arith.select)
def select_by_negation(op: Operation, rewriter: Rewriter) -> bool:
    condition, x, y = op.inputs
    inner = condition.op
    if inner is None or inner.defn is not arith.not_:
        return False
    rewriter.replace(op, [rewriter.build(op, arith.select, inner.inputs[0], y, x)])
    return True


@CANONICAL.pattern(arith.select)
def select_of_select(op: Operation, rewriter: Rewriter) -> bool:
    """A select nested in one with the same condition always takes the same side."""
    condition = op.inputs[0]
    for position in (1, 2):
        inner = op.inputs[position].op
        if inner is not None and inner.defn is arith.select and inner.inputs[0] is condition:
            rewriter.set_operand(op, position, inner.inputs[position])
            return True
    return False


@CANONICAL.pattern(arith.add)
def add_to_dot(op: Operation, rewriter: Rewriter) -> bool:
    """`dot(a, b, 0) + x` is `dot(a, b, x)`: the order of the sum is unspecified.

    The dot must have no other use and be in the same block, so that it does not run more often.
    """
    for position, value in enumerate(op.inputs):
        dot = value.op
        if dot is None or dot.defn is not dot_ops.dot or dot.block is not op.block:
            continue
        a, b, acc = dot.inputs
        if len(value.uses) == 1 and constant_of(acc) == 0:
            addend = op.inputs[1 - position]
            fused = rewriter.build(op, dot_ops.dot, a, b, addend, **dot.attributes)
            rewriter.replace(op, [fused])
            return True
    return False
