"""Elementwise arithmetic, bitwise operations, comparison, selection and conversion.

Integers wrap. `div` and `rem` of integers truncate toward zero, so a remainder has the dividend's
sign. Floats are IEEE 754; each operation rounds once to its own type, to nearest even.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from tile.errors import TypeRuleError
from tile.ir import semantics
from tile.ir.declare import elementwise, op, same_shape
from tile.ir.descriptor_type import Descriptor
from tile.ir.op_definition import OpDef, Trait
from tile.ir.types import (
    ALL,
    FLOATS,
    I1,
    I32,
    INTEGERS,
    Pointer,
    Scalar,
    Type,
    require,
    with_element,
)
from tile.short_repr import short_repr

NUMBERS = (*INTEGERS, *FLOATS)
BITS = (I1, *INTEGERS)


def declare(name: str, arity: int, doc: str, accepts: Sequence[Scalar], **properties: Any) -> OpDef:
    """Declare an operation, whose reference semantics has its name unless it is stated."""
    if "semantics" not in properties:
        properties["semantics"] = getattr(semantics, f"{name}_" if iskeyword(name) else name)
    return elementwise(__name__, name, arity, doc, accepts=tuple(accepts), **properties)


class Predicate(enum.StrEnum):
    """The predicate of `cmp`. A comparison with a NaN is false, except `ne`, which is true."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    @property
    def swapped(self) -> Predicate:
        """The predicate for swapped operands: `x < y` is `y > x`."""
        return _SWAPPED.get(self, self)

    @property
    def negated(self) -> Predicate:
        """The negated predicate. For floats it is the negation only if no operand is NaN."""
        return _NEGATED[self]


_SWAPPED = {
    Predicate.LT: Predicate.GT,
    Predicate.GT: Predicate.LT,
    Predicate.LE: Predicate.GE,
    Predicate.GE: Predicate.LE,
}
_NEGATED = {
    Predicate.EQ: Predicate.NE,
    Predicate.NE: Predicate.EQ,
    Predicate.LT: Predicate.GE,
    Predicate.GE: Predicate.LT,
    Predicate.GT: Predicate.LE,
    Predicate.LE: Predicate.GT,
}


class Rounding(enum.StrEnum):
    """The rounding mode of a float conversion to fewer bits."""

    RTNE = "rtne"  # to nearest, ties to even
    RTZ = "rtz"  # toward zero


def _const(*, value: bool | int | float, result: Type) -> Any:
    return semantics.constant(value, result.element).reshape((1,) * (1 + result.rank))


@op(
    any_extents=True,
    traits={Trait.CONSTANT},
    semantics=_const,
    unit_axes_broadcast=True,
    examples=("%r = const {value = 7} : i32", "%r = const {value = -0.5} : tile<4xf32>"),
)
def const(*, value: bool | int | float, result: Type) -> Type:
    """A constant; a tile constant has `value` in every element."""
    element = result.element
    if not isinstance(element, Scalar):
        raise TypeRuleError(f"a constant has a number type, not {result}")
    kind: type = int
    expected = "an integer"
    if element.is_bool():
        kind, expected = bool, "true or false"
    elif element.is_floating():
        kind, expected = float, "a float"
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeRuleError(f"a constant of type {element} is {expected}, not {short_repr(value)}")
    if kind is int and not element.min_value <= value <= element.max_value:
        raise TypeRuleError(
            f"{value} does not fit {element} ({element.min_value} to {element.max_value})"
        )
    return result


def _poison(*, result: Type) -> Any:
    if isinstance(result, Descriptor):
        return np.zeros((1, len(result.component_types)), np.int64)
    return semantics.constant(0, result.element).reshape((1,) * (1 + result.rank))


@op(
    any_extents=True,
    traits={Trait.CONSTANT},
    semantics=_poison,
    unit_axes_broadcast=True,
    examples=("%r = poison : f32",),
)
def poison(*, result: Type) -> Type:
    """An undefined value. Backends may produce any value; the interpreter produces zero."""
    return result


add = declare("add", 2, "`x + y`.", (I1, *NUMBERS), commutative=True)
sub = declare("sub", 2, "`x - y`.", (I1, *NUMBERS))
mul = declare("mul", 2, "`x * y`.", (I1, *NUMBERS), commutative=True)
div = declare(
    "div",
    2,
    "`x / y`, truncated toward zero for integers (division by zero is undefined).",
    NUMBERS,
    ulp=2,
    traits={Trait.DIVISION},
)
div_rn = declare("div_rn", 2, "`x / y` rounded to nearest.", FLOATS, semantics=semantics.div)
rem = declare(
    "rem",
    2,
    "The remainder of `div`, with the sign of `x` (undefined for a zero divisor).",
    NUMBERS,
    ulp=2,
    traits={Trait.DIVISION},
)
neg = declare("neg", 1, "`-x`.", NUMBERS)
and_ = declare("and", 2, "Bitwise `x & y`.", BITS, commutative=True)
or_ = declare("or", 2, "Bitwise `x | y`.", BITS, commutative=True)
xor = declare("xor", 2, "Bitwise `x ^ y`.", BITS, commutative=True)
not_ = declare("not", 1, "Bitwise `~x`.", BITS)
shl = declare("shl", 2, "`x << y`; 0 where `y` is at least the width.", INTEGERS)
shr = declare(
    "shr", 2, "`x >> y`, arithmetic for signed and logical for unsigned integers.", INTEGERS
)
mulhi = declare(
    "mulhi",
    2,
    "The high half of the double-width product.",
    [ty for ty in INTEGERS if ty.bits >= 32],
    commutative=True,
)
fma = declare("fma", 3, "`x * y + z` rounded once.", FLOATS, ulp=1)


def _extremum(name: str, doc: str, compute: Callable[..., Any]) -> OpDef:
    def rule(x: Type, y: Type, *, propagate_nan: bool = False) -> Type:
        return same_shape(name, (x, y), NUMBERS)

    rule.__doc__ = f"{doc} If one operand is a NaN, the other one, or the NaN if `propagate_nan`."
    example = "%x: tile<8xf32>, %y: tile<8xf32> | %r = {} %x, %y {}: tile<8xf32>"
    return op(
        name,
        elementwise=True,
        commutative=True,
        accepts=NUMBERS,
        semantics=compute,
        examples=(example.format(name, ""), example.format(name, "{propagate_nan = true} ")),
    )(rule)


min_ = _extremum("min", "The minimum.", semantics.minimum)
max_ = _extremum("max", "The maximum.", semantics.maximum)


@op(
    elementwise=True,
    accepts=(I1, *NUMBERS),
    semantics=semantics.cmp,
    examples=("%x: tile<8xf32>, %y: tile<8xf32> | %r = cmp %x, %y {predicate = lt} : tile<8xi1>",),
)
def cmp(x: Type, y: Type, *, predicate: Predicate) -> Type:
    """Compare elements by a predicate; see `Predicate`."""
    require(x == y, f"cmp takes operands of one type, not {x} and {y}")
    require(
        isinstance(x.element, Pointer) or x.element in (I1, *NUMBERS),
        f"cmp is not defined on {x.element}",
    )
    return with_element(x, I1)


@op(
    elementwise=True,
    accepts=ALL,
    semantics=semantics.select,
    examples=(
        "%c: tile<8xi1>, %x: tile<8xf32>, %y: tile<8xf32> | %r = select %c, %x, %y : tile<8xf32>",
        "%c: i1, %x: ptr<f32>, %y: ptr<f32> | %r = select %c, %x, %y : ptr<f32>",
    ),
)
def select(condition: Type, x: Type, y: Type) -> Type:
    """`x` where the condition holds, else `y`."""
    require(x == y, f"select takes values of one type, not {x} and {y}")
    require(not isinstance(x, Descriptor), f"select is not defined on {x}; use an `if`")
    mask = with_element(x, I1)
    require(condition == mask, f"select of {x} takes a condition of type {mask}, not {condition}")
    return x


@op(
    elementwise=True,
    accepts=NUMBERS,
    semantics=lambda x, after: x,
    examples=(
        "%x: tile<8xf16>, %n: tile<8xi32> | %r = launder %x, %n : tile<8xf16>",
        "%x: i64, %n: i32 | %r = launder %x, %n : i64",
    ),
)
def launder(x: Type, after: Type) -> Type:
    """Return `x` as values of which the compilers behind an emitter know nothing before `after`.

    What depends on the result is computed anew, behind `after`, and not kept from where the same
    was computed of `x`: 16-bit floats so take half the registers that they do as f32.
    """
    require(x.element in NUMBERS, f"launder takes numbers, not {x}")
    number = with_element(x, I32)
    require(after == number, f"launder of {x} takes a number of type {number}, not {after}")
    return x


@op(
    elementwise=True,
    accepts=ALL,
    semantics=semantics.cast,
    examples=("%x: tile<8xf32> | %r = cast %x {to = bf16} : tile<8xbf16>",),
)
def cast(x: Type, *, to: Type, rounding: Rounding = Rounding.RTNE) -> Type:
    """Convert values to another type.

    Float to integer truncates toward zero, saturates, and converts NaN to 0. Integers wrap. Every
    value except zero converts to true. A value beyond the range of an 8-bit float, also infinity,
    becomes the largest finite one.
    """
    require(isinstance(x.element, Scalar) and isinstance(to, Scalar), f"cannot cast {x} to {to}")
    assert isinstance(to, Scalar)
    downcast = x.element.is_floating() and to.is_floating() and to.bits < x.element.bits
    require(
        rounding is Rounding.RTNE or downcast,
        f"only a float cast to fewer bits may round toward zero, not {x.element} to {to}",
    )
    return with_element(x, to)


@op(
    elementwise=True,
    accepts=NUMBERS,
    semantics=semantics.bitcast,
    examples=(
        "%x: tile<8xf32> | %r = bitcast %x {to = i32} : tile<8xi32>",
        "%x: ptr<f32> | %r = bitcast %x {to = i64} : i64",
    ),
)
def bitcast(x: Type, *, to: Type) -> Type:
    """Reinterpret the bits as another type of the same width; pointers may change pointee."""
    require(isinstance(to, Scalar | Pointer), f"bitcast goes to a scalar or pointer type, not {to}")
    assert isinstance(to, Scalar | Pointer)
    require(
        x.element.bits == to.bits,
        f"bitcast keeps the width: {x.element} has {x.element.bits} bits and {to} has {to.bits}",
    )
    return with_element(x, to)


def _hint(x: Any, **claims: Any) -> Any:
    return x


@op(
    any_extents=True,
    unit_axes_broadcast=True,
    semantics=_hint,
    examples=("%x: tile<8xi32> | %r = hint %x {divisible = (16), contiguous = (8)} : tile<8xi32>",),
)
def hint(
    x: Type,
    *,
    divisible: tuple[int, ...] = (),
    contiguous: tuple[int, ...] = (),
    constant: tuple[int, ...] = (),
) -> Type:
    """Return `x` unchanged, with assumptions about each axis for the axis info analysis.

    Along axis k, every aligned run of `contiguous[k]` elements counts up by one and its first
    element is a multiple of `divisible[k]`; the elements of an aligned run of `constant[k]` are
    equal. An empty tuple assumes nothing. A scalar has one axis.
    """
    axes = max(1, x.rank)
    for name, claim in (
        ("divisible", divisible),
        ("contiguous", contiguous),
        ("constant", constant),
    ):
        require(
            len(claim) in (0, axes),
            f"hint takes one value of `{name}` for each of {axes} axes, not {len(claim)}",
        )
        require(all(value > 0 for value in claim), f"`{name}` holds positive numbers, not {claim}")
    return x
