"""The types of the IR: scalars, pointers, tiles and more. Types are frozen, comparable, printable.

Signedness is part of an integer's type, so signed and unsigned integers share `div` and `shr`.
Every type has a `shape` and an `element`: a scalar is its own element and has shape `()`. A
type rule can therefore treat scalars and tiles alike.

    f32   ptr<f32>   tile<128x64xf32>   tile<8xptr<i8>>

From the LAID_OUT level on, tiles have layouts and there are buffers in shared memory. At the THREAD
level, fragments replace tiles: a fragment is the part of a tile that one thread holds.

    tile<16x16xf32, #a>   shared<16x64xf16, #b, stages = 3>   frag<8xf32>

`layout_kinds` has the kinds of layouts, `shared_type` and `descriptor_type` the types of buffers
and of tensor descriptors, `numpy_dtypes` the dtypes of NumPy.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tile.errors import TypeRuleError
from tile.ir.dtype_members import NamedType, Signedness, float_format
from tile.ir.extents import MAX_NUMEL, check_extent, padded
from tile.ir.layout_kinds import Layout
from tile.ir.unique import Unique, by_fields


def require(condition: bool, message: str) -> None:
    """Raise `TypeRuleError` with `message` unless the condition holds."""
    if not condition:
        raise TypeRuleError(message)


class Kind(enum.IntEnum):
    """The kind of a scalar type, ordered by rank in type promotion.

    A call returns it: kernels and libraries write `x.dtype.kind()`, and the second names.
    """

    BOOL = 0
    INT = 1
    FLOAT = 2
    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2

    def __call__(self) -> Kind:
        return self


class Type(metaclass=Unique):
    """Base of all types. There is one object for each type."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def element(self) -> Scalar | Pointer:
        raise TypeRuleError(f"{self} has no element type")

    @property
    def scalar(self) -> Scalar | Pointer:
        """The element type, under the name that kernels use."""
        return self.element

    @property
    def rank(self) -> int:
        return len(self.shape)

    def is_block(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return False

    __reduce__ = by_fields


class Element(NamedType, Type):
    """A type of one element: a number or a pointer.

    `bits` are those of its value. In memory and in 32-bit registers it takes `storage_bits`.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def bits(self) -> int: ...

    @property
    def storage_bits(self) -> int:
        """The bits that an element takes in memory and in a register; a boolean takes a byte."""
        return 8 if self.is_bool() else self.bits

    @property
    def packing(self) -> int:
        """The number of elements that share a byte: 1 unless they have less than 8 bits."""
        return max(1, 8 // self.storage_bits)

    @property
    def itemsize(self) -> int:
        """The size of one element in memory, in bytes. Elements that share a byte have none."""
        if self.packing > 1:
            raise TypeRuleError(f"{self.packing} elements of {self} share a byte")
        return self.storage_bits // 8

    def bytes_of(self, count: int) -> int:
        """Return the size of `count` contiguous elements in memory, in bytes."""
        return -(-count * self.storage_bits // 8)

    @property
    def primitive_bitwidth(self) -> int:
        return self.bits

    def is_floating(self) -> bool:
        return False

    def is_standard_floating(self) -> bool:
        return False

    def is_bool(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def is_int_signed(self) -> bool:
        return False

    def is_int_unsigned(self) -> bool:
        return False

    def is_fp8(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Element):
    """A number type.

    `ir_name` is its spelling in IR text (`f32`), `alias` that in signatures (`fp32`, `i32`), and
    `name` that of kernels and libraries (`fp32`, `int32`), which NumPy's names do not contradict.
    """

    ir_name: str
    kind: Kind
    bits: int
    signed: bool = True
    alias: str = ""

    def __str__(self) -> str:
        return self.ir_name

    __repr__ = __str__

    @property
    def element(self) -> Scalar:
        return self

    @property
    def name(self) -> str:
        """The name in kernels and libraries: `int32`, `uint8`, `fp16`."""
        if self.is_floating():
            return self.alias
        return f"{'u' if self.is_int_unsigned() else ''}int{self.bits}"

    @property
    def int_bitwidth(self) -> int:
        return self.bits

    @property
    def int_signedness(self) -> Signedness:
        """The signedness of an integer; a boolean is unsigned. Floats have no such attribute."""
        if self.is_floating():
            raise AttributeError(f"{self} is not an integer: it has no signedness")
        return Signedness.SIGNED if self.is_int_signed() else Signedness.UNSIGNED

    @property
    def min_value(self) -> int:
        """The least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.is_int_signed() else 0

    @property
    def max_value(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.is_int_signed() else (1 << self.bits) - 1

    def is_floating(self) -> bool:
        return self.kind is Kind.FLOAT

    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    def is_int(self) -> bool:
        """Return True for an integer of any width, booleans included."""
        return self.kind is not Kind.FLOAT

    def is_int_signed(self) -> bool:
        return self.kind is Kind.INT and self.signed

    def is_int_unsigned(self) -> bool:
        return self.kind is Kind.INT and not self.signed

    def is_standard_floating(self) -> bool:
        """Return True for a float on which arithmetic is defined.

        8-bit floats are for storage, casts and dots only.
        """
        return self.kind is Kind.FLOAT and self.bits >= 16

    def is_fp8(self) -> bool:
        return self.kind is Kind.FLOAT and self.bits == 8

    def get_int_min_value(self) -> int:
        """Return `min_value`, under the name that kernels use."""
        return self.min_value

    def get_int_max_value(self) -> int:
        """Return `max_value`, under the name that kernels use."""
        return self.max_value

    @property
    def fp_mantissa_width(self) -> int:
        """The bits of a float's mantissa, without the implicit one."""
        return float_format(self.name).mantissa_width

    @property
    def exponent_bias(self) -> int:
        """The bias of a float's exponent."""
        return float_format(self.name).exponent_bias

    def with_element_ty(self, element_ty: Scalar | Pointer) -> Scalar | Pointer:
        """Return the element type, since a scalar is its own element."""
        return element_ty

    def mangle(self) -> str:
        """Return the name of the type in mangled names of functions."""
        return self.alias

    def to(self, bits: int) -> Scalar:
        """Return the integer type of the same signedness with `bits` bits."""
        return SCALARS[("i" if self.signed else "u") + str(bits)]


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Pointer(Element):
    """The address of an element of type `pointee` in global memory.

    Raises `TypeRuleError` for another address space than global memory, which is 1 or "global",
    and for `const`, since a pointer's type does not tell whether it is only read through.
    """

    pointee: Scalar | Pointer

    def __init__(
        self, element_ty: Scalar | Pointer, address_space: int | str = 1, const: bool = False
    ) -> None:
        require(
            isinstance(element_ty, Scalar | Pointer),
            f"a pointer points to a scalar or a pointer, not to {element_ty!r}",
        )
        require(
            address_space in (1, "global"),
            f'pointers have address space 1, "global", not {address_space!r}',
        )
        require(
            not const,
            "a type does not tell that a pointer is only read through; annotate the parameter "
            "tl.const",
        )
        object.__setattr__(self, "pointee", element_ty)

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"

    @property
    def name(self) -> str:
        return f"pointer<{self.pointee.name}>"

    def mangle(self) -> str:
        """Return the name of the type in mangled names of functions."""
        return f"P{self.pointee.mangle()}"

    __repr__ = __str__

    @property
    def element(self) -> Pointer:
        return self

    @property
    def element_ty(self) -> Scalar | Pointer:
        return self.pointee

    @property
    def bits(self) -> int:
        return 64

    def is_ptr(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Tile(Type):
    """A block of elements; `layout` is set from the LAID_OUT level on.

    From the pass `pad-extents` on, extents are powers of two.
    """

    dims: tuple[int, ...]
    of: Scalar | Pointer
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if not self.dims:
            raise TypeRuleError("a tile has at least one axis")
        for extent in self.dims:
            if extent <= 0:
                raise TypeRuleError(f"tile extents are positive, and {extent} is not")
        if self.numel << len(self.dims) > MAX_NUMEL:  # else it is small enough with any padding
            self._check_size()

    def _check_size(self) -> None:
        stored = math.prod(map(padded, self.dims))
        padding = "" if stored == self.numel else " with its padding to powers of two"
        require(
            stored <= MAX_NUMEL,
            f"a tile of shape {list(self.dims)} has {stored} elements{padding}; the most is "
            f"{MAX_NUMEL}",
        )

    def __str__(self) -> str:
        extents = "x".join(map(str, self.dims))
        layout = f", {self.layout}" if self.layout is not None else ""
        return f"tile<{extents}x{self.of}{layout}>"

    __repr__ = __str__

    @property
    def shape(self) -> tuple[int, ...]:
        return self.dims

    @property
    def element(self) -> Scalar | Pointer:
        return self.of

    @property
    def element_ty(self) -> Scalar | Pointer:
        return self.of

    def is_block(self) -> bool:
        return True

    @property
    def numel(self) -> int:
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """The size of the elements in memory, in bytes."""
        return self.of.bytes_of(self.numel)

    def get_block_shapes(self) -> tuple[int, ...]:
        """Return the shape, under the name that kernels use."""
        return self.dims

    def with_element_ty(self, element_ty: Scalar | Pointer) -> Tile:
        """Return the type of a tile of the same shape with other elements."""
        return Tile(self.dims, element_ty)

    def mangle(self) -> str:
        """Return the name of the type in mangled names of functions."""
        return f"{self.of.mangle()}S{'_'.join(map(str, self.dims))}S"


@dataclass(frozen=True, slots=True, eq=False)
class Fragment(Type):
    """The registers of one thread that hold its part of a tile; a power of two of them."""

    count: int
    of: Scalar | Pointer

    def __post_init__(self) -> None:
        check_extent(self.count, "a fragment's registers are")

    def __str__(self) -> str:
        return f"frag<{self.count}x{self.of}>"

    __repr__ = __str__

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def element(self) -> Scalar | Pointer:
        return self.of

    def is_block(self) -> bool:
        return True


# The text of a type, which IR text repeats for most operations.
_text = functools.cache(str)


def listed(types: Iterable[Type]) -> str:
    """Return the text of types, separated by commas."""
    return ", ".join(map(_text, types))


def count_of(ty: Type) -> int:
    """Return the number of registers of a value of a type: 1 unless it is a fragment."""
    return ty.count if isinstance(ty, Fragment) else 1


class Precision(enum.StrEnum):
    """The rounding of f32 dot operands before multiplication."""

    IEEE = "ieee"  # none
    TF32 = "tf32"  # rounded or truncated to 10 bits of mantissa
    TF32X3 = "tf32x3"  # each split into two tf32 numbers; the smallest of four terms is dropped
    BF16X3 = "bf16x3"
    BF16X6 = "bf16x6"


def _integer(bits: int, signed: bool) -> Scalar:
    name = ("i" if signed else "u") + str(bits)
    return Scalar(name, Kind.INT, bits, signed, name)


I1 = Scalar("i1", Kind.BOOL, 1, False, "i1")
I8, I16, I32, I64 = (_integer(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (_integer(bits, False) for bits in (8, 16, 32, 64))
F8E4M3 = Scalar("f8e4m3", Kind.FLOAT, 8, True, "fp8e4nv")
F8E5M2 = Scalar("f8e5m2", Kind.FLOAT, 8, True, "fp8e5")
F8E4M3B15 = Scalar("f8e4m3b15", Kind.FLOAT, 8, True, "fp8e4b15")
F8E4M3FNUZ = Scalar("f8e4m3fnuz", Kind.FLOAT, 8, True, "fp8e4b8")
F8E5M2FNUZ = Scalar("f8e5m2fnuz", Kind.FLOAT, 8, True, "fp8e5b16")
F16 = Scalar("f16", Kind.FLOAT, 16, True, "fp16")
BF16 = Scalar("bf16", Kind.FLOAT, 16, True, "bf16")
F32 = Scalar("f32", Kind.FLOAT, 32, True, "fp32")
F64 = Scalar("f64", Kind.FLOAT, 64, True, "fp64")

SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (F16, BF16, F32, F64)
NARROW_FLOATS = (F16, BF16)  # floats of less than 32 bits that have arithmetic
FP8 = (F8E4M3, F8E5M2)  # the 8-bit floats that machines convert and multiply
EMULATED_FP8 = (F8E4M3B15, F8E4M3FNUZ, F8E5M2FNUZ)  # those that integer operations convert
ALL_FP8 = (*FP8, *EMULATED_FP8)
ALL = (I1, *INTEGERS, *FP8, *FLOATS)  # the types that machines have
# Operations that accept `ALL` accept the emulated types as well.
SCALARS: dict[str, Scalar] = {ty.ir_name: ty for ty in (*ALL, *EMULATED_FP8)}
ALIASES: dict[str, Scalar] = {ty.alias: ty for ty in SCALARS.values()}


def number_of(ty: Type) -> Scalar:
    """Return the element type of a type whose elements are numbers, not pointers."""
    assert isinstance(ty.element, Scalar), f"{ty} has no elements that are numbers"
    return ty.element


def with_element(ty: Type, element: Scalar | Pointer) -> Type:
    """Return `ty` with another element: a tile of the same shape, or `element` for a scalar."""
    if isinstance(ty, Tile):
        return ty if element is ty.of else Tile(ty.dims, element, ty.layout)
    return Fragment(ty.count, element) if isinstance(ty, Fragment) else element


def with_layout(ty: Type, layout: Layout | None) -> Type:
    """Return a tile type with another layout, or without one; return any other type unchanged."""
    if not isinstance(ty, Tile) or ty.layout is layout:
        return ty
    return Tile(ty.dims, ty.of, layout)


def without_layout(ty: Type) -> Type:
    """Return the type without its layout, as type rules see it."""
    return Tile(ty.dims, ty.of) if isinstance(ty, Tile) and ty.layout is not None else ty


def with_shape(shape: Iterable[int], element: Scalar | Pointer) -> Type:
    """Return a tile type of the shape, or the element itself for shape `()`."""
    dims = tuple(shape)
    return Tile(dims, element) if dims else element
