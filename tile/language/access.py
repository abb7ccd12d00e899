"""What every access to memory demands of its pointers, values and masks."""

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
    """The type of the elements behind `pointer`; raises `CompilationError` if it is no pointer."""
    if not isinstance(pointer, Tensor) or not isinstance(pointer.dtype, Pointer):
        raise CompilationError(
            f"{name} takes a pointer or a tile of pointers, not {describe(pointer)}"
        )
    return pointer.dtype.pointee


def as_mask(build: Builder, name: str, mask: Operand | None) -> Tensor | None:
    """A mask as `tl.int1`, or None where it is always true."""
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


def fill(build: Builder, x: Any, ty: Type, what: str) -> Tensor:
    """`x` cast and broadcast to a type."""
    number = as_number(x)
    if number is not None:
        return constant(build, number, ty)
    return convert_shape(build, convert(build, to_tensor(build, x, what), ty.element), ty.shape)


def spread(build: Builder, mask: Tensor | None, pointer: Tensor) -> Value | None:
    """A mask as an operand: broadcast to the shape of the pointers, or absent."""
    return None if mask is None else convert_shape(build, mask, pointer.shape).value


def check_scalar(name: str, pointer: Tensor, **given: Any) -> None:
    """Refuse tiles, each under the name of its parameter, where the pointer is a single one."""
    for what, x in given.items():
        if isinstance(x, Tensor) and x.shape:
            raise CompilationError(
                f"{name} through one pointer of type {pointer.type} takes a scalar as its "
                f"{what}, not "
                f"{x.type}; for a tile add offsets to the pointer, as in pointer + tl.arange(0, N)"
            )


def check_shapes(name: str, pointer: Tensor, **given: Any) -> None:
    """Refuse tiles that do not broadcast to the shape of the pointers, by their parameter."""
    for what, x in given.items():
        if isinstance(x, Tensor) and common_shape(pointer.shape, x.shape) != pointer.shape:
            raise CompilationError(
                f"{name} through pointers of shape {list(pointer.shape)} takes a {what} of "
                "that shape, "
                f"not {list(x.shape)}"
            )
