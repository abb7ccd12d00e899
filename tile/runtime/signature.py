"""Parameter types as text: Triton's names, with a property of the value after a colon.

    fp32   i32   u8   bf16   fp8e4nv   i1        scalars
    *fp32   **fp32                               pointers
    i32:16   *fp32:16                            divisible by 16 (a pointer: its address)
    i32:1                                        known to be 1

A launch specializes its arguments to such texts and `tile.compile` takes them, so both give the
same compiled kernel.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.types import ALIASES, I1, Pointer, Scalar
from tile.short_repr import short_repr

DIVISOR = 16

# Accepted synonyms; types are printed with the scalar's alias.
SYNONYMS: dict[str, str] = {
    "bool": "i1",
    "int1": "i1",
    "u1": "i1",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class ParameterType:
    """The type of a runtime argument and properties of its value: a divisor, or being 1."""

    type: Scalar | Pointer
    divisible: int = 1
    one: bool = False

    def __str__(self) -> str:
        hint = ":1" if self.one else f":{self.divisible}" if self.divisible > 1 else ""
        return spell_type(self.type) + hint


def spell_type(ty: Scalar | Pointer) -> str:
    """Return a type as in signatures: `*fp32` for `ptr<f32>`."""
    return "*" + spell_type(ty.pointee) if isinstance(ty, Pointer) else ty.alias


def parse_signature_type(text: str) -> ParameterType:
    """Read one type of a signature.

    Raises `ArgumentTypeError` for an object that is not text, and `ArgumentValueError` for an
    unknown type or property.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"a type in a signature is text such as '*fp32', not {short_repr(text)}"
        )
    spelling, colon, hint = text.replace(" ", "").partition(":")
    ty = parse_type(spelling)
    if not colon:
        return ParameterType(ty)
    if hint == "1":
        _require_integer(ty, text, "known to be 1")
        return ParameterType(ty, one=True)
    if hint == str(DIVISOR):
        if not isinstance(ty, Pointer):
            _require_integer(ty, text, f"divisible by {DIVISOR}")
        return ParameterType(ty, DIVISOR)
    raise ArgumentValueError(
        f"{short_repr(text)}: after the colon write {DIVISOR} for a value divisible by it, or 1 "
        f"for a value that is 1, not {short_repr(hint)}"
    )


def parse_type(spelling: str) -> Scalar | Pointer:
    """Read a type without a property. Raises `ArgumentValueError` for an unknown type."""
    name = spelling.lstrip("*")
    scalar = ALIASES.get(SYNONYMS.get(name, name))
    if scalar is None:
        near = difflib.get_close_matches(name, [*ALIASES, *SYNONYMS], n=1)
        guess = f" (did you mean {'*' * (len(spelling) - len(name))}{near[0]}?)" if near else ""
        raise ArgumentValueError(
            f"there is no type {short_repr(spelling)}{guess}; the types are {', '.join(ALIASES)}, "
            "a pointer to one with * before it, and a pointer to pointers with **"
        )
    ty: Scalar | Pointer = scalar
    for _ in range(len(spelling) - len(name)):
        ty = Pointer(ty)
    return ty


def _require_integer(ty: Scalar | Pointer, text: str, fact: str) -> None:
    if not ty.is_int() or ty == I1:
        raise ArgumentValueError(
            f"{short_repr(text)}: only an integer can be {fact}, and this is {spell_type(ty)}"
        )
