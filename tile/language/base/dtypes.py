"""The element types with their names in the language. They are the scalar types of the IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tile.errors import CompilationError
from tile.ir.dtype_members import NamedType, Signedness
from tile.ir.extents import MAX_NUMEL
from tile.ir.types import (
    BF16,
    F8E4M3,
    F8E4M3B15,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    U8,
    U16,
    U32,
    U64,
    Kind,
    Pointer,
    Scalar,
    Tile,
    Type,
)
from tile.short_repr import short_repr

pointer_type = Pointer

int1 = I1
int8, int16, int32, int64 = I8, I16, I32, I64
uint8, uint16, uint32, uint64 = U8, U16, U32, U64
float16, float32, float64 = F16, F32, F64
bfloat16 = BF16
float8e4nv, float8e5 = F8E4M3, F8E5M2
float8e4b15, float8e4b8, float8e5b16 = F8E4M3B15, F8E4M3FNUZ, F8E5M2FNUZ
pi32_t = Pointer(I32)

TRITON_MAX_TENSOR_NUMEL = MAX_NUMEL

NAMES: dict[Scalar, str] = {
    I1: "int1",
    **{ty: f"int{ty.bits}" for ty in (I8, I16, I32, I64)},
    **{ty: f"uint{ty.bits}" for ty in (U8, U16, U32, U64)},
    **{ty: f"float{ty.bits}" for ty in (F16, F32, F64)},
    BF16: "bfloat16",
    F8E4M3: "float8e4nv",
    F8E5M2: "float8e5",
    F8E4M3B15: "float8e4b15",
    F8E4M3FNUZ: "float8e4b8",
    F8E5M2FNUZ: "float8e5b16",
}


class const:  # noqa: N801 - the language's own spelling
    """The annotation of a pointer parameter through which the kernel only reads."""


@dataclass(frozen=True, slots=True)
class _Void(NamedType, Type):
    """The class of `tl.void`, the type of no value, for annotations."""

    @property
    def name(self) -> str:
        return "void"

    def __str__(self) -> str:
        return self.name

    def mangle(self) -> str:
        """Return the name of the type in mangled names of functions."""
        return "V"


void = _Void()


class _TypeConstructor(type):
    """The class of `dtype` and `block_type`, which construct types of the IR.

    A call returns `construct(...)`, and instances are those of the IR's class `kind`.
    """

    kind: type[Type]
    construct: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.construct(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind)


_TYPES = tuple(SCALARS.values())


class dtype(metaclass=_TypeConstructor):  # noqa: N801 - the language's own spelling
    """The type of a value or of an element, `x.type` or `x.dtype`; `tl.dtype("fp32")` by name.

    Names are those of `x.dtype.name`: `int32`, `uint8`, `fp16`, `bf16`, `fp8e4nv`. Raises
    `CompilationError` for another one.
    """

    kind = Type
    KIND = Kind
    SIGNEDNESS = Signedness
    SINT_TYPES: ClassVar = NamedType.SINT_TYPES
    UINT_TYPES: ClassVar = NamedType.UINT_TYPES
    FP_TYPES: ClassVar = NamedType.FP_TYPES
    STANDARD_FP_TYPES: ClassVar = NamedType.STANDARD_FP_TYPES
    OTHER_TYPES: ClassVar = NamedType.OTHER_TYPES
    is_dtype = NamedType.is_dtype

    @staticmethod
    def construct(name: str) -> Scalar:
        """Return the scalar type of a name; see the class."""
        if name not in _BY_NAME:
            names = ", ".join(_BY_NAME)
            raise CompilationError(f"{short_repr(name)} names no type; the types are {names}")
        return _BY_NAME[name]


_BY_NAME: dict[str, Scalar] = {ty.name: ty for ty in _TYPES}


class block_type(metaclass=_TypeConstructor):  # noqa: N801 - the language's own spelling
    """The type of a tile of `shape`, equal to `x.type` of such a tile `x`."""

    kind = Tile

    @staticmethod
    def construct(element_ty: Scalar | Pointer, shape: Sequence[int]) -> Tile:
        """Return the type of a tile; see the class."""
        return Tile(tuple(shape), element_ty)


def spelled(ty: Type) -> str:
    """Return a type as it is written in a kernel: `tl.float32`, `tl.pointer_type(tl.int8)`."""
    if isinstance(ty, Scalar):
        return f"tl.{NAMES[ty]}"
    if isinstance(ty, Pointer):
        return f"tl.pointer_type({spelled(ty.pointee)})"
    return str(ty)
