"""Canonicalization of arithmetic, comparisons, selects and dots.

Identities of arithmetic hold for every value of the type, bit for bit. Floats are not rewritten if
a NaN, an infinity, the sign of a zero or a rounding would differ: `x + 0.0` is not `x` for
`x = -0.0`, but `x + -0.0` is. Two additions of constants are combined only if the sum of the
constants does not wrap, so that no overflow appears or disappears.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, shape
from tile.ir.ops import dot as dot_ops
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.rewriter import Rewriter
from tile.ir.types import I1, Pointer, Scalar, number_of
from tile.transforms.canonicalize.patterns import CANONICAL, constant, producer

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
    return number_of(value.type)


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


@CANONICAL.simplification(*NEUTRAL, arith.div_rn)
def neutral_operand(op: Operation, _: Rewriter) -> Value | None:
    x, y = op.inputs
    ty = scalar(x)
    neutral = NEUTRAL_FLOAT.get(op.defn) if ty.is_floating() else NEUTRAL[op.defn](ty)
    return x if neutral is not None and is_number(y, neutral) else None


@CANONICAL.simplification(*ABSORBING)
def absorbing_operand(op: Operation, rewriter: Rewriter) -> Value | None:
    x, y = op.inputs
    ty = scalar(x)
    absorbing, result = ABSORBING[op.defn]
    if ty.is_floating() or not is_number(y, absorbing(ty)):
        return None
    return constant(op, rewriter, result(ty), x.type)


@CANONICAL.simplification(*IDEMPOTENT)
def equal_operands(op: Operation, _: Rewriter) -> Value | None:
    x, y = op.inputs
    return x if x is y else None


@CANONICAL.simplification(*CANCELLING)
def cancelling_operands(op: Operation, rewriter: Rewriter) -> Value | None:
    x, y = op.inputs
    if x is not y or scalar(x).is_floating():
        return None
    return constant(op, rewriter, _zero(scalar(x)), x.type)


@CANONICAL.simplification(*INVOLUTIONS)
def double_involution(op: Operation, _: Rewriter) -> Value | None:
    inner = producer(op.inputs[0], op.defn)
    return None if inner is None else inner.inputs[0]


@CANONICAL.simplification(arith.sub)
def subtract_constant(op: Operation, rewriter: Rewriter) -> Value | None:
    """`x - c` is `x + -c`, which combines with other additions."""
    x, y = op.inputs
    ty, number = scalar(x), constant_of(y)
    if not ty.is_int_signed() or number is None or number == ty.min_value:
        return None
    return rewriter.build(op, arith.add, x, constant(op, rewriter, -number, y.type))


@CANONICAL.simplification(*ASSOCIATIVE)
def reassociate_constants(op: Operation, rewriter: Rewriter) -> Value | None:
    inner, right = producer(op.inputs[0], op.defn), op.inputs[1]
    ty, second = scalar(right), constant_of(right)
    if inner is None or second is None or ty.is_floating():
        return None
    left, middle = inner.inputs
    first, exact = constant_of(middle), EXACT.get(op.defn)
    if first is None:
        return None
    total = 0 if exact is None or ty.is_bool() else exact(int(first), int(second))
    if not ty.min_value <= total <= ty.max_value:
        return None
    return rewriter.build(op, op.defn, left, rewriter.build(op, op.defn, middle, right))


@CANONICAL.simplification(arith.hint)
def empty_hint(op: Operation, _: Rewriter) -> Value | None:
    claims = (op["divisible"], op["contiguous"], op["constant"])
    return op.inputs[0] if all(number == 1 for claim in claims for number in claim) else None


@CANONICAL.simplification(arith.cast)
def cast_to_itself(op: Operation, _: Rewriter) -> Value | None:
    return op.inputs[0] if op.inputs[0].type == op.result.type else None


@CANONICAL.simplification(arith.cast)
def cast_of_cast(op: Operation, rewriter: Rewriter) -> Value | None:
    """Two casts are one if the type in between represents every value of the source type."""
    inner = producer(op.inputs[0], arith.cast)
    if inner is None:
        return None
    x = inner.inputs[0]
    first, through, last = scalar(x), scalar(inner.result), scalar(op.result)
    if not _represents(through, first) or not _same_conversion(first, through, last):
        return None
    rounding: Rounding = op["rounding"]
    if _represents(last, first):
        rounding = Rounding.RTNE  # the cast is exact
    elif rounding is not Rounding.RTNE and not (first.is_floating() and first.bits > last.bits):
        return None  # only a cast of a wider float may have another rounding mode
    return rewriter.build(op, arith.cast, x, to=last, rounding=rounding)


# Bits of a float's significand, including the implicit one.
PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
WIDENINGS = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}


def _represents(wide: Scalar, narrow: Scalar) -> bool:
    """Return True if `wide` represents every value of `narrow`."""
    if narrow == wide:
        return True
    if narrow.is_floating():
        return (narrow.ir_name, wide.ir_name) in WIDENINGS
    if narrow.is_bool():
        return wide.ir_name in PRECISION or not wide.is_floating()
    if wide.is_floating():
        return wide.ir_name in PRECISION and narrow.bits <= PRECISION[wide.ir_name]
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


@CANONICAL.simplification(arith.cmp)
def constant_on_the_left(op: Operation, rewriter: Rewriter) -> Value | None:
    x, y = op.inputs
    if constant_of(x) is None or constant_of(y) is not None:
        return None
    return rewriter.build(op, arith.cmp, y, x, predicate=op["predicate"].swapped)


@CANONICAL.simplification(arith.cmp)
def compared_with_itself(op: Operation, rewriter: Rewriter) -> Value | None:
    """`x < x` is false even for a NaN; `x == x` is true only without NaNs."""
    x, y = op.inputs
    if x is not y or not (op["predicate"] in STRICT or _ordered(x)):
        return None
    return constant(op, rewriter, op["predicate"] in REFLEXIVE, op.result.type)


def _equals(op: Operation, rewriter: Rewriter, truth: Value, same: bool) -> Value:
    """Return a boolean that stands for a comparison, or its negation unless they are the `same`."""
    return truth if same else rewriter.build(op, arith.not_, truth)


@CANONICAL.simplification(arith.cmp)
def boolean_compared_with_constant(op: Operation, rewriter: Rewriter) -> Value | None:
    """A boolean compared with a constant is itself or its negation."""
    x, y = op.inputs
    truth = constant_of(y)
    if x.type.element != I1 or truth is None or op["predicate"] not in EQUALITY:
        return None
    return _equals(op, rewriter, x, truth == (op["predicate"] is Predicate.EQ))


@CANONICAL.simplification(arith.cmp)
def cast_boolean_compared_with_zero(op: Operation, rewriter: Rewriter) -> Value | None:
    """A boolean cast to a number and compared with zero is itself or its negation."""
    x, y = op.inputs
    source = producer(x, arith.cast)
    if source is None or constant_of(y) != 0 or op["predicate"] not in EQUALITY:
        return None
    truth = source.inputs[0]
    is_boolean = truth.type.element == I1
    return _equals(op, rewriter, truth, op["predicate"] is Predicate.NE) if is_boolean else None


@CANONICAL.simplification(arith.cmp)
def extended_compared_with_constant(op: Operation, rewriter: Rewriter) -> Value | None:
    """Compare an integer before its extension, if its own type has the constant."""
    x, y = op.inputs
    source, number = producer(x, arith.cast), constant_of(y)
    if source is None or not isinstance(number, int) or isinstance(number, bool):
        return None
    narrow, wide = scalar(source.inputs[0]), scalar(x)
    if not (_is_integer(narrow) and _is_integer(wide) and _represents(wide, narrow)):
        return None
    if not narrow.min_value <= number <= narrow.max_value:
        return None
    other = constant(op, rewriter, number, source.inputs[0].type)
    return rewriter.build(op, arith.cmp, source.inputs[0], other, predicate=op["predicate"])


def _is_integer(ty: Scalar) -> bool:
    return ty.is_int() and not ty.is_bool()


@CANONICAL.simplification(arith.cmp)
def extended_compared_with_extended(op: Operation, rewriter: Rewriter) -> Value | None:
    """Compare integers before their extensions, if these are of one type."""
    sources = [_before_extension(x) for x in op.inputs]
    x, y = sources
    if x is None or y is None or x.type != y.type:
        return None
    return rewriter.build(op, arith.cmp, x, y, predicate=op["predicate"])


@CANONICAL.simplification(arith.cmp)
def extended_compared_with_splat(op: Operation, rewriter: Rewriter) -> Value | None:
    """Compare elements for equality before their extension to 64 bits.

    They are compared with the truncated scalar, and all differ if that is another number.
    """
    x, y = op.inputs
    if producer(x, shape.splat) is not None:
        x, y = y, x
    narrow, inner = _before_extension(x), producer(y, shape.splat)
    if op["predicate"] not in EQUALITY or narrow is None or inner is None:
        return None
    if scalar(x).bits <= 32:
        return None  # one instruction compares these, too
    (number,), sizes = inner.inputs, {"shape": inner["shape"]}
    truncated = rewriter.build(op, arith.cast, number, to=scalar(narrow))
    again = rewriter.build(op, arith.cast, truncated, to=scalar(x))
    fits = rewriter.build(op, arith.cmp, again, number, predicate=op["predicate"])
    other = rewriter.build(op, shape.splat, truncated, **sizes)
    same = rewriter.build(op, arith.cmp, narrow, other, predicate=op["predicate"])
    combine = arith.and_ if op["predicate"] is Predicate.EQ else arith.or_
    return rewriter.build(op, combine, same, rewriter.build(op, shape.splat, fits, **sizes))


def _before_extension(value: Value) -> Value | None:
    """Return the narrower integer of which a value is an extension, if it is one."""
    source = producer(value, arith.cast)
    if source is None:
        return None
    narrow, wide = scalar(source.inputs[0]), scalar(value)
    extends = narrow != wide and _is_integer(narrow) and _is_integer(wide)
    return source.inputs[0] if extends and _represents(wide, narrow) else None


@CANONICAL.simplification(arith.not_)
def not_of_a_comparison(op: Operation, rewriter: Rewriter) -> Value | None:
    """Use the negated predicate; for floats this is exact for equality only."""
    inner = producer(op.inputs[0], arith.cmp)
    if inner is None or not (_ordered(inner.inputs[0]) or inner["predicate"] in EQUALITY):
        return None
    return rewriter.build(op, arith.cmp, *inner.inputs, predicate=inner["predicate"].negated)


@CANONICAL.simplification(arith.select)
def select_by_constant(op: Operation, _: Rewriter) -> Value | None:
    """A select by a constant, or between equal values, is one of them."""
    condition, x, y = op.inputs
    truth = constant_of(condition)
    if truth is None and x is not y:
        return None
    return y if truth is False else x


@CANONICAL.simplification(arith.select)
def select_of_booleans(op: Operation, rewriter: Rewriter) -> Value | None:
    """A select between true and false is the condition or its negation."""
    condition, x, y = op.inputs
    for truth in (True, False):
        if is_number(x, truth) and is_number(y, not truth):
            return _equals(op, rewriter, condition, truth)
    return None


@CANONICAL.simplification(arith.select)
def select_by_negation(op: Operation, rewriter: Rewriter) -> Value | None:
    condition, x, y = op.inputs
    inner = producer(condition, arith.not_)
    return None if inner is None else rewriter.build(op, arith.select, inner.inputs[0], y, x)


@CANONICAL.simplification(arith.select)
def select_of_extensions(op: Operation, rewriter: Rewriter) -> Value | None:
    """Select between values before their extension, which then is one instead of two."""
    condition, *values = op.inputs
    sources = [producer(value, arith.cast) for value in values]
    if any(len(value.uses) > 1 for value in values):
        return None
    x, y = (None if source is None else source.inputs[0] for source in sources)
    if x is None or y is None or x.type != y.type or not _represents(scalar(op.result), scalar(x)):
        return None
    selected = rewriter.build(op, arith.select, condition, x, y)
    return rewriter.build(op, arith.cast, selected, to=scalar(op.result))


@CANONICAL.pattern(arith.select)
def select_of_select(op: Operation, rewriter: Rewriter) -> bool:
    """A select nested in one with the same condition always takes the same side."""
    for position in (1, 2):
        inner = producer(op.inputs[position], arith.select)
        if inner is not None and inner.inputs[0] is op.inputs[0]:
            rewriter.set_operand(op, position, inner.inputs[position])
            return True
    return False


@CANONICAL.simplification(arith.add)
def add_to_dot(op: Operation, rewriter: Rewriter) -> Value | None:
    """`dot(a, b, 0) + x` is `dot(a, b, x)`: the order of the sum is unspecified.

    The dot must have no other use and be in the same block, so that it does not run more often.
    """
    for value, addend in (op.inputs, op.inputs[::-1]):
        dot = producer(value, dot_ops.dot)
        if dot is None or dot.block is not op.block or len(value.uses) > 1:
            continue
        a, b, acc = dot.inputs
        if constant_of(acc) == 0:
            return rewriter.build(op, dot_ops.dot, a, b, addend, **dot.attributes)
    return None
