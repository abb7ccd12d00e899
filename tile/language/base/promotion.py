"""Type promotion and broadcasting: the only implicit conversions of the language.

Two runtime values are promoted to a common type: the higher kind (bool < integer < float), then the
greater width. Of equal width, float16 wins over bfloat16 and unsigned over signed. The common type
of bfloat16 and an integer or 8-bit float is float32, and that of two different 8-bit floats is
float16. An 8-bit float and an integer have none. Division and remainder of 16-bit floats are
computed in float32; those of integers need operands of equal signedness.

A Python number is weakly typed: it takes the type of the other operand unless its kind is higher.
Then its type is the first of int32, uint32, int64, uint64, or of float32, float64, that can
represent it. A comparison promotes that type with the operand's, as for two runtime values, if the
operand's cannot represent the number: 0.1 is compared with a float16 in float32.

Shapes are broadcast as in NumPy: missing axes are added on the left, and an extent of 1 is
repeated.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import numpy as np

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.ops import arith, shape
from tile.ir.ops.arith import Rounding
from tile.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I32,
    I64,
    U32,
    U64,
    Kind,
    Pointer,
    Scalar,
    Type,
    number_of,
    with_element,
)
from tile.language.base.constexpr import constexpr
from tile.language.base.dtypes import spelled
from tile.language.base.tensor import Tensor
from tile.short_repr import short_repr

Number: TypeAlias = bool | int | float
Operand: TypeAlias = Tensor | bool | int | float

LEAST_NORMAL = 2.0**-126
GREATEST = (2 - 2.0**-23) * 2.0**127


def as_number(x: Any) -> Number | None:
    """Return `x` as a Python number, with a NumPy scalar or `tl.constexpr` unwrapped, or None."""
    if isinstance(x, constexpr):
        x = x.value
    if isinstance(x, np.generic):
        x = x.item()
    return x if isinstance(x, bool | int | float) else None


def number_type(number: Number) -> Scalar:
    """Return the default type of a Python number: the first that can represent it.

    Raises `CompilationError` for an integer that no type can represent.
    """
    if isinstance(number, bool):
        return I1
    if isinstance(number, float):
        finite = number == number and abs(number) != float("inf")
        return F64 if finite and number and not LEAST_NORMAL <= abs(number) <= GREATEST else F32
    for ty in (I32, U32, I64, U64):
        if ty.min_value <= number <= ty.max_value:
            return ty
    raise CompilationError(
        f"the integer {short_repr(number)} does not fit any type; the widest are 64 bits wide"
    )


def _integers(a: Scalar, b: Scalar) -> Scalar:
    """Return the common type of two integers; a boolean is an unsigned integer of one bit."""
    if a.signed == b.signed:
        return a if a.bits > b.bits else b
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.bits >= signed.bits else signed


def _floats(a: Scalar, b: Scalar) -> Scalar:
    """Return the common type of two types of which at least one is a float."""
    both = (a, b)
    for ty in (F64, F32, F16):
        if ty in both:
            return ty
    if a == b:
        return a
    return F32 if BF16 in both else F16


def common_type(a: Scalar, b: Scalar, *, dividing: bool = False, op: str = "/") -> Scalar:
    """Return the common type of two runtime values; `dividing` if it is for `/`, `//` or `%`.

    Raises `CompilationError` for an 8-bit float and an integer, and for a division of integers of
    different signedness.
    """
    if a.is_floating() or b.is_floating():
        if (a.is_fp8() and b.is_int()) or (b.is_fp8() and a.is_int()):
            raise CompilationError(
                f"{spelled(a)} and {spelled(b)} have no common type; cast one of them explicitly"
            )
        ty = _floats(a, b)
        return F32 if dividing and ty in (F16, BF16) else ty
    if dividing and a.signed != b.signed:
        raise CompilationError(
            f"Cannot use `{op}` with {spelled(a)} and {spelled(b)} because they have different "
            "signedness; cast one of them to the signedness of the other"
        )
    return _integers(a, b)


def weak_type(number: Number, other: Scalar, *, dividing: bool = False) -> Scalar:
    """Return the common type of a Python number and a runtime value of type `other`."""
    if _kind(number) > other.kind:
        return common_type(number_type(number), other, dividing=dividing)
    return F32 if dividing and other in (F16, BF16) else other


def compared_type(number: Number, other: Scalar) -> Scalar:
    """Return the type in which a Python number is compared with a runtime value of type `other`.

    It represents both exactly, if a common type of the two does.
    """
    ty = weak_type(number, other)
    return ty if _represents(ty, number) else common_type(number_type(number), ty)


def _represents(ty: Scalar, number: Number) -> bool:
    """Return True if a number is exactly one of a type."""
    if ty.kind is Kind.INT:
        return ty.min_value <= number <= ty.max_value
    if ty.is_bool() or number != number:
        return True
    if ty.is_fp8():  # whose common type with a float is wider
        return not isinstance(number, float)
    with np.errstate(over="ignore"):
        return float(np.float64(number).astype(numpy_dtype(ty))) == number


def _kind(number: Number) -> Kind:
    if isinstance(number, float):
        return Kind.FLOAT
    return Kind.BOOL if isinstance(number, bool) else Kind.INT


def weak_constant(build: Builder, number: Number, ty: Type, op: str) -> Tensor:
    """Return a Python number as a constant of `ty`, its common type with the operand of `op`.

    Raises `CompilationError` if an integer type cannot represent it.
    """
    element = number_of(ty)
    if element.kind is Kind.FLOAT and not isinstance(number, float):
        number_type(number)
    if element.kind is Kind.INT:
        number = int(number)
        if not element.min_value <= number <= element.max_value:
            raise CompilationError(
                f"{number} is out of range for type {spelled(element)} of the other operand of "
                f"`{op}`, which holds {element.min_value} to {element.max_value}; cast that "
                "operand to a type that holds the number"
            )
    return Tensor(build.constant(_finite(number, element), ty))


def to_tensor(build: Builder, x: Any, subject: str = "this") -> Tensor:
    """Return `x` as a runtime value; a number becomes a scalar constant of its default type.

    Raises `CompilationError`, naming `subject`, for anything else.
    """
    if isinstance(x, Tensor):
        return x
    number = as_number(x)
    if number is None:
        raise CompilationError(f"{subject} must be a tile, a scalar or a number, not {describe(x)}")
    return Tensor(build.constant(number, number_type(number)))


def describe(x: Any) -> str:
    """Return the text of an operand in a message: the type of a runtime value, else the value."""
    if isinstance(x, Tensor):
        return str(x.type)
    if isinstance(x, Type):
        return f"the type {spelled(x)}"
    return (
        short_repr(x)
        if x is None or as_number(x) is not None
        else f"{short_repr(x)} ({type(x).__name__})"
    )


def convert(
    build: Builder, x: Tensor, to: Scalar | Pointer, rounding: Rounding = Rounding.RTNE
) -> Tensor:
    """Return `x` with elements of another type, like `x.to(dtype)`.

    Pointers convert to other pointers and, bitwise, to and from 64-bit integers; a pointer is true
    unless it is null. Raises `CompilationError` for other conversions of pointers.
    """
    source = x.dtype
    if source == to:
        return x
    if isinstance(source, Pointer) and to is I1:
        return convert(build, convert(build, x, U64), I1)
    if isinstance(source, Pointer) or isinstance(to, Pointer):
        number = to if isinstance(source, Pointer) else source
        if not isinstance(number, Pointer) and number not in (I64, U64):
            raise CompilationError(
                f"{spelled(source)} does not convert to {spelled(to)}; a pointer converts to and "
                "from tl.int64 and tl.uint64, and to other pointers"
            )
        return Tensor(build(arith.bitcast, x.value, to=to))
    return Tensor(build(arith.cast, x.value, to=to, rounding=rounding))


def constant(build: Builder, number: Number, ty: Type) -> Tensor:
    """Return a Python number as a constant, converted to `ty` as a runtime value would be."""
    element = ty.element
    if isinstance(element, Pointer):
        return convert_shape(build, convert(build, to_tensor(build, number), element), ty.shape)
    if element.kind is Kind.INT:
        if not _holds(element, number):
            own = Tensor(build.constant(number, with_element(ty, number_type(number))))
            return convert(build, own, element)
        number = int(number)
    return Tensor(build.constant(_finite(number, element), ty))


def _finite(number: Number, ty: Scalar) -> Number:
    """Return a number for a constant of `ty`; raise if an integer overflows Python's float."""
    if ty.is_floating() and not isinstance(number, float):
        try:
            return float(number)
        except OverflowError:
            raise CompilationError(
                f"an integer of {number.bit_length()} bits does not fit {spelled(ty)}"
            ) from None
    return number


def _holds(ty: Scalar, number: Number) -> bool:
    """Return True if an integer type can represent a number truncated to an integer."""
    finite = number == number and abs(number) != float("inf")
    return finite and ty.min_value <= int(number) <= ty.max_value


def convert_shape(build: Builder, x: Tensor, extents: tuple[int, ...]) -> Tensor:
    """Return `x` broadcast to a shape; axes are added on the left.

    Raises `CompilationError` if an extent is neither 1 nor that of the result.
    """
    if x.shape == extents:
        return x
    if not x.shape:
        return Tensor(build(shape.splat, x.value, shape=extents))
    padded = (1,) * (len(extents) - len(x.shape)) + x.shape
    if len(padded) != len(extents) or any(
        source not in (1, extent) for source, extent in zip(padded, extents, strict=True)
    ):
        raise CompilationError(
            f"a tile of shape {list(x.shape)} cannot be broadcast to shape {list(extents)}"
        )
    value = x.value
    for rank in range(len(x.shape) + 1, len(extents) + 1):
        value = build(shape.expand_dims, value, axis=-rank)
    if padded != extents:
        value = build(shape.broadcast, value, shape=extents)
    return Tensor(value)


def check_constant(number: Number, ty: Scalar, subject: str) -> None:
    """Raise `CompilationError`, naming `subject`, for a number that an integer type cannot have.

    Numbers of as many bits are taken as their pattern: 0xFFFFFFFF is the int32 -1.
    """
    if ty.kind is not Kind.INT:
        return
    whole = number == number and abs(number) != float("inf") and number == int(number)
    if not (whole and ty.min_value <= number < 1 << ty.bits):
        raise CompilationError(
            f"{subject} is {short_repr(number)}, and {spelled(ty)} holds the integers "
            f"{ty.min_value} to {ty.max_value}; tl.cast converts it as it converts runtime values"
        )


def keep_value(build: Builder, x: Any, ty: Type, subject: str) -> Tensor:
    """Return `x` cast and broadcast to a type that holds its value; `subject` names it in errors.

    Integers of one width are taken for each other bit by bit. Raises `CompilationError` for a cast
    from an integer to a float or back, and to a narrower type.
    """
    element, number = ty.element, as_number(x)
    if isinstance(element, Scalar):
        if number is not None:
            check_bits(number, element, subject)
        else:
            source = to_tensor(build, x, subject).dtype
            kinds = {source.is_floating(), element.is_floating()}
            if source.is_ptr() or len(kinds) > 1 or source.bits > element.bits:
                raise CompilationError(
                    f"{subject} is of {spelled(source)}, and memory holds {spelled(element)}; cast "
                    f"it, as in x.to({spelled(element)})"
                )
    return cast_to(build, x, ty, subject)


def check_bits(number: Number, ty: Scalar, subject: str) -> None:
    """Raise `CompilationError` for a number that an integer type cannot have, signed or not."""
    patterns = 1 << ty.bits
    if not (isinstance(number, int) and -patterns // 2 <= number < patterns):
        check_constant(number, ty, subject)


def cast_to(build: Builder, x: Any, ty: Type, subject: str) -> Tensor:
    """Return `x` cast and broadcast to a type; `subject` names it in errors."""
    number = as_number(x)
    if number is not None:
        return constant(build, number, ty)
    return convert_shape(build, convert(build, to_tensor(build, x, subject), ty.element), ty.shape)


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which all of these broadcast.

    Raises `CompilationError` if two extents on one axis differ and neither is 1.
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    extents = []
    for axis in range(rank):
        extents_of_axis = {s[axis] for s in padded} - {1}
        if len(extents_of_axis) > 1:
            named = " and ".join(str(list(s)) for s in shapes)
            raise CompilationError(
                f"shapes {named} cannot be broadcast together: axis {axis} has extents "
                f"{' and '.join(str(s[axis]) for s in padded)}, of which neither is 1"
            )
        extents.append(extents_of_axis.pop() if extents_of_axis else 1)
    return tuple(extents)


def broadcast_together(build: Builder, *xs: Tensor) -> tuple[Tensor, ...]:
    """Return the values broadcast to their common shape."""
    extents = common_shape(*(x.shape for x in xs))
    return tuple(convert_shape(build, x, extents) for x in xs)


def unify(
    build: Builder,
    op: str,
    a: Any,
    b: Any,
    *,
    dividing: bool = False,
    comparing: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return two operands of `op` as runtime values, promoted to one type and shape.

    Pointers must have the same type. Two Python numbers become scalars of their common type. Raises
    `CompilationError` if there is no common type or shape.
    """
    left, right = as_number(a), as_number(b)
    if left is not None and right is not None:
        return unify(build, op, to_tensor(build, left), to_tensor(build, right), dividing=dividing)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _unify_tensors(build, op, a, b, dividing)
    number = left if right is None else right
    x = b if right is None else a
    if number is None or not isinstance(x, Tensor) or isinstance(x.dtype, Pointer):
        refuse(op, a, b)
    if comparing:
        ty = compared_type(number, x.dtype)
    else:
        ty = weak_type(number, x.dtype, dividing=dividing)
    y = weak_constant(build, number, with_element(x.type, ty), op)
    x = convert(build, x, ty)
    return (x, y) if right is not None else (y, x)


def _unify_tensors(
    build: Builder, op: str, x: Tensor, y: Tensor, dividing: bool
) -> tuple[Tensor, Tensor]:
    first, second = x.dtype, y.dtype
    if not isinstance(first, Pointer) and not isinstance(second, Pointer):
        ty = common_type(first, second, dividing=dividing, op=op)
        x, y = convert(build, x, ty), convert(build, y, ty)
    elif first != second:
        refuse(op, x, y)
    x, y = broadcast_together(build, x, y)
    return x, y


def refuse(op: str, a: Any, b: Any) -> NoReturn:
    """Raise the error of an operator that is not defined on its operands."""
    raise CompilationError(f"`{op}` has invalid operands of type {describe(a)} and {describe(b)}")
