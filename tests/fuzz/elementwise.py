"""Values made element by element: constants, arithmetic, comparisons, casts."""

from __future__ import annotations

from tests.fuzz.shapes import arange_of
from tests.fuzz.writer import Writer
from tile.ir.core import Value
from tile.ir.ops import arith, program
from tile.ir.ops import math as math_ops
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import F32, F64, FLOATS, FP8, I1, I32, Scalar, Type, with_element

INTEGER_BINARY = (
    *(arith.add, arith.sub, arith.mul, arith.div, arith.rem, arith.min_, arith.max_),
    *(arith.and_, arith.or_, arith.xor, arith.shl, arith.shr),
)
FLOAT_BINARY = (
    *(arith.add, arith.sub, arith.mul, arith.div, arith.div_rn, arith.rem),
    *(arith.min_, arith.max_),
)
BOOL_BINARY = (arith.add, arith.sub, arith.mul, arith.and_, arith.or_, arith.xor)
FLOAT_UNARY = (arith.neg, math_ops.abs_, math_ops.floor, math_ops.ceil, math_ops.sqrt_rn)


def leaf_of(w: Writer, ty: Type, depth: int = 0) -> Value:
    """A constant, or a number from where the program stands."""
    element = ty.element
    assert isinstance(element, Scalar)
    if ty == I32 and w.chance(2):
        defn = w.choose((program.program_id, program.num_programs))
        return w.emit(defn, axis=w.number(0, 2))
    if element == I32 and ty.rank == 1 and w.chance(2):
        return arange_of(w, ty, 0)
    return w.constant(literal(w, element), ty)


def literal(w: Writer, element: Scalar) -> float:
    if element.is_bool():
        return bool(w.number(0, 1))
    if element.is_floating():
        return float(w.choose((0.0, 1.0, 2.0, -1.0, 0.5, -3.0, 1.25, 16.0)))
    low, high = element.min_value, element.max_value
    return int(w.choose((0, 1, 2, 3, 5, 7, 8, high, high - 1, low, low + 1)))


def binary_of(w: Writer, ty: Type, depth: int) -> Value:
    element = ty.element
    assert isinstance(element, Scalar)
    if element in FLOATS:
        table = FLOAT_BINARY
    else:
        table = BOOL_BINARY if element.is_bool() else INTEGER_BINARY
    defn = w.choose(table)
    x, y = w.value(ty, depth), w.value(ty, depth)
    if defn in (arith.div, arith.rem) and not element.is_floating():
        y = w.emit(arith.or_, y, w.constant(1, ty))
    attributes = {}
    if defn in (arith.min_, arith.max_):
        attributes["propagate_nan"] = w.chance(2)
    made = w.emit(defn, x, y, **attributes)
    return one_zero(w, made) if attributes else made


def one_zero(w: Writer, value: Value) -> Value:
    """A float without its negative zero, where min and max leave the sign open."""
    if value.type.element not in FLOATS:
        return value
    return w.emit(arith.add, value, w.constant(0.0, value.type))


def unary_of(w: Writer, ty: Type, depth: int) -> Value:
    element = ty.element
    if element in FLOATS:
        table = FLOAT_UNARY if element in (F32, F64) else (arith.neg, math_ops.abs_)
    else:
        table = (arith.not_,) if element == I1 else (arith.not_, arith.neg, math_ops.abs_)
    return w.emit(w.choose(table), w.value(ty, depth))


def fma_of(w: Writer, ty: Type, depth: int) -> Value:
    return w.emit(arith.fma, *(w.value(ty, depth) for _ in range(3)))


def mulhi_of(w: Writer, ty: Type, depth: int) -> Value:
    return w.emit(arith.mulhi, w.value(ty, depth), w.value(ty, depth))


def compare_of(w: Writer, ty: Type, depth: int) -> Value:
    element = w.choose([e for e in w.elements if e not in FP8])
    of = with_element(ty, element)
    predicate = w.choose(tuple(Predicate))
    return w.emit(arith.cmp, w.value(of, depth), w.value(of, depth), predicate=predicate)


def select_of(w: Writer, ty: Type, depth: int) -> Value:
    condition = w.value(with_element(ty, I1), depth)
    return w.emit(arith.select, condition, w.value(ty, depth), w.value(ty, depth))


def cast_of(w: Writer, ty: Type, depth: int) -> Value:
    source, to = w.element(), ty.element
    x = w.value(with_element(ty, source), depth)
    narrows = source.is_floating() and to.is_floating() and to.bits < source.bits
    rounding = w.choose(tuple(Rounding)) if narrows and to not in FP8 else Rounding.RTNE
    return w.emit(arith.cast, x, to=to, rounding=rounding)


def bitcast_of(w: Writer, ty: Type, depth: int) -> Value:
    element = ty.element
    assert isinstance(element, Scalar)
    sources = [e for e in w.elements if e.bits == element.bits and e not in FP8]
    source = w.choose(sources)
    x = w.value(with_element(ty, source), depth)
    if source in FLOATS:  # the bits of a NaN are anyone's
        number = w.emit(arith.cmp, x, x, predicate=Predicate.EQ)
        x = w.emit(arith.select, number, x, w.constant(1.0, x.type))
    return w.emit(arith.bitcast, x, to=element)


def hint_of(w: Writer, ty: Type, depth: int) -> Value:
    ones = (1,) * max(1, ty.rank)
    claims = {n: ones for n in ("divisible", "contiguous", "constant") if w.chance(2)}
    return w.emit(arith.hint, w.value(ty, depth), **claims)
