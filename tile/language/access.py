"""Checks and conversions of the pointers, values and masks of memory accesses."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.types import Pointer, Scalar, Type
from tile.language.promote import (
    Operand,
    as_number,
    common_shape,
    constant,
    convert,
    convert_shape,
    describe,
    to_tensor,
)
from tile.language.tensor import Tensor


def pointee(name: str, pointer: Any) -> Scalar | Pointer:
    """Return the pointee type; raise `CompilationError` if `pointer` is not a pointer."""
    if not isinstance(pointer, Tensor) or not isinstance(pointer.dtype, Pointer):
        raise CompilationError(
            f"{name} takes a pointer or a tile of pointers, not {describe(pointer)}"
        )
    return pointer.dtype.pointee


def as_mask(build: Builder, name: str, mask: Operand | None) -> Tensor | None:
    """Return a mask as `tl.int1`, or None if it is always true."""
    if mask is None:
        return None
    number = as_number(mask)
    if number is not None:
        return None if number else to_tensor(build, False)
    tensor = to_tensor(build, mask, f"the mask of {name}")
    if not tensor.dtype.is_bool():
        raise CompilationError(
            f"the mask of {name} is of tl.int1, not {tensor.type}; compare it, as in mask != 0"
        )
    return tensor


def cast_to(build: Builder, x: Any, ty: Type, subject: str) -> Tensor:
    """Return `x` cast and broadcast to a type; `subject` names it in errors."""
    number = as_number(x)
    if number is not None:
        return constant(build, number, ty)
    return convert_shape(build, convert(build, to_tensor(build, x, subject), ty.element), ty.shape)


def mask_operand(build: Builder, mask: Tensor | None, pointer: Tensor) -> Value | None:
    """Return a mask as an operand, broadcast to the shape of the pointers; None if absent."""
    return None if mask is None else convert_shape(build, mask, pointer.shape).value


def check_scalar(name: str, pointer: Tensor, **arguments: Any) -> None:
    """Raise `CompilationError` if an argument of an access through a scalar pointer is a tile."""
    for parameter, x in arguments.items():
        if isinstance(x, Tensor) and x.shape:
            raise CompilationError(
                f"{name} through one pointer of type {pointer.type} takes a scalar as its "
                f"{parameter}, not "
                f"{x.type}; for a tile add offsets to the pointer, as in pointer + tl.arange(0, N)"
            )


def check_shapes(name: str, pointer: Tensor, **arguments: Any) -> None:
    """Raise `CompilationError` if an argument does not broadcast to the shape of the pointers."""
    for parameter, x in arguments.items():
        if isinstance(x, Tensor) and common_shape(pointer.shape, x.shape) != pointer.shape:
            raise CompilationError(
                f"{name} through pointers of shape {list(pointer.shape)} takes a {parameter} of "
                "that shape, "
                f"not {list(x.shape)}"
            )
