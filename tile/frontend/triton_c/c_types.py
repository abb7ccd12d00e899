"""C's types of scalars, pointers and tiles, and its arithmetic conversions (C17, 6.3.1)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

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
    Kind,
    Pointer,
    Scalar,
)

# Types by the shortest of their names. `long` has 64 bits, as for CUDA on Linux.
SCALARS: dict[str, Scalar | None] = {
    "void": None,
    "bool": I1,
    "char": I8,
    "unsigned char": U8,
    "short": I16,
    "unsigned short": U16,
    "int": I32,
    "unsigned": U32,
    "long": I64,
    "long long": I64,
    "unsigned long": U64,
    "unsigned long long": U64,
    "half": F16,
    "bfloat16": BF16,
    "float": F32,
    "double": F64,
    "float8_e4m3": F8E4M3,
    "float8_e5m2": F8E5M2,
    "int8_t": I8,
    "int16_t": I16,
    "int32_t": I32,
    "int64_t": I64,
    "uint8_t": U8,
    "uint16_t": U16,
    "uint32_t": U32,
    "uint64_t": U64,
}
SPELLINGS: dict[Scalar, str] = {
    I1: "bool", I8: "char", U8: "unsigned char", I16: "short", U16: "unsigned short", I32: "int",
    U32: "unsigned int", I64: "long", U64: "unsigned long", F16: "half", BF16: "bfloat16",
    F32: "float", F64: "double", F8E4M3: "float8_e4m3", F8E5M2: "float8_e5m2",
}  # fmt: skip

# How C names the sizes of integers; `signed` or `unsigned` may stand with each, in any order.
_SIZES = ("char", "short", "short int", "", "int", "long", "long int", "long long", "long long int")


def _by_words() -> dict[tuple[str, ...], Scalar | None]:
    """Return the types by the sorted words of all of their names (C17, 6.7.2)."""
    types: dict[tuple[str, ...], Scalar | None] = {
        (name,): ty for name, ty in SCALARS.items() if " " not in name
    }
    for size in _SIZES:
        shortest = size.removesuffix("int").split()
        for sign, shown in (("", []), ("signed", []), ("unsigned", ["unsigned"])):
            words = tuple(sorted([*sign.split(), *size.split()]))
            types[words] = SCALARS[" ".join([*shown, *shortest]) or "int"]
    return types


_BY_WORDS = _by_words()


@dataclass(frozen=True)
class CType:
    """The declared type of a variable.

    `element` is None for `void`. `shape` has an expression for each axis of a tile, which is
    evaluated when the kernel is compiled; `pointers` counts the stars.
    """

    element: Scalar | None
    pointers: int = 0
    shape: tuple[ast.expr, ...] = ()
    qualifiers: frozenset[str] = frozenset()

    @property
    def is_void(self) -> bool:
        return self.element is None and not self.pointers

    @property
    def dtype(self) -> Scalar | Pointer:
        """The type of an element: a scalar or a pointer; `void*` points to bytes."""
        dtype: Scalar | Pointer = self.element or I8
        for _ in range(self.pointers):
            dtype = Pointer(dtype)
        return dtype

    @property
    def scalar(self) -> CType:
        """The same type without a shape."""
        return replace(self, shape=())

    def __str__(self) -> str:
        name = "void" if self.element is None else SPELLINGS[self.element]
        stars = "*" * self.pointers
        extents = ", ".join(extent_text(extent) for extent in self.shape)
        return f"{name}{stars}" + (f"[{extents}]" if extents else "")


def extent_text(extent: ast.expr) -> str:
    """Return the text of an extent for messages."""
    name = getattr(extent, "id", None)
    return str(name or getattr(extent, "value", "..."))


def scalar_named(words: list[str]) -> Scalar | None:
    """Return the scalar type of some words, None for `void`. Raises KeyError for no such type."""
    return _BY_WORDS[tuple(sorted(words))]


def truncated(op: str, a: int, b: int) -> int:
    """Return `a / b` or `a % b` of integers; the quotient is truncated, as in C."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if op == "/" else a - quotient * b


def promoted(ty: Scalar) -> Scalar:
    """Return the type that an operand has after C's integer promotions.

    Booleans and integers of less than 32 bits become `int`, 8-bit floats `float`.
    """
    if ty.is_fp8():
        return F32
    return I32 if ty.kind is not Kind.FLOAT and ty.bits < I32.bits else ty


def common(a: Scalar, b: Scalar) -> Scalar:
    """Return the type of `a op b` by C's usual arithmetic conversions.

    A 16-bit float and an integer have the float's type; `half` and `bfloat16` have `float`.
    """
    a, b = promoted(a), promoted(b)
    if a == b:
        return a
    floats = [ty for ty in (a, b) if ty.is_floating()]
    if len(floats) == 1:
        return floats[0]
    if floats:
        return F32 if a.bits == b.bits else max(floats, key=lambda ty: ty.bits)
    if a.signed == b.signed:
        return max(a, b, key=lambda ty: ty.bits)
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.bits >= signed.bits else signed
