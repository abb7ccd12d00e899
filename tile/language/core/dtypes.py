"""The element types with their names in the language. They are the scalar types of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tile.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Pointer,
    Scalar,
    Tile,
    Type,
)
from tile.language.core.builtin import builtin

if TYPE_CHECKING:  # not imported by a process whose kernels are all in the disk cache
    from tile.ir.builder import Builder

dtype = Scalar
pointer_type = Pointer

int1 = I1
int8, int16, int32, int64 = I8, I16, I32, I64
uint8, uint16, uint32, uint64 = U8, U16, U32, U64
float16, float32, float64 = F16, F32, F64
bfloat16 = BF16
float8e4nv, float8e5 = F8E4M3, F8E5M2
pi32_t = Pointer(I32)

NAMES: dict[Scalar, str] = {
    I1: "int1",
    **{ty: f"int{ty.bits}" for ty in (I8, I16, I32, I64)},
    **{ty: f"uint{ty.bits}" for ty in (U8, U16, U32, U64)},
    **{ty: f"float{ty.bits}" for ty in (F16, F32, F64)},
    BF16: "bfloat16",
    F8E4M3: "float8e4nv",
    F8E5M2: "float8e5",
}


class const:  # noqa: N801 - the language's own spelling
    """The annotation of a pointer parameter through which the kernel only reads."""


@builtin
def block_type(build: Builder, element_ty: Scalar | Pointer, shape: Sequence[int]) -> Tile:
    """The type of a tile of `shape`, equal to `x.type` of such a tile `x`."""
    return Tile(tuple(shape), element_ty)


def spelled(ty: Type) -> str:
    """Return a type as it is written in a kernel: `tl.float32`, `tl.pointer_type(tl.int8)`."""
    if isinstance(ty, Scalar):
        return f"tl.{NAMES[ty]}"
    if isinstance(ty, Pointer):
        return f"tl.pointer_type({spelled(ty.pointee)})"
    return str(ty)
