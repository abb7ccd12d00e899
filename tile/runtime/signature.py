"""Parameter types as text: Triton's names, with properties of the value after colons.

    fp32   i32   u8   bf16   fp8e4nv   i1        scalars
    *fp32   **fp32                               pointers
    i32:16   *fp32:16                            divisible by 16 (a pointer: its address)
    i32:8    i32:4                               divisible by 8 or 4
    i32:1                                        known to be 1
    *fp32:noalias   *fp32:16:noalias             if written, accessed through no other pointer
    *fp32:aliased   *fp32:16:aliased             may be accessed through other aliased pointers
    *fp32:aliased:unordered                      the same, where threads need no order among them

A launch specializes its arguments to such texts and `tile.compile` takes them, so both give the
same compiled kernel.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.types import ALIASES, I1, Pointer, Scalar
from tile.short_repr import short_repr

Path = tuple[int, ...]
"""Where an argument is: the index of its parameter, in a tuple the item's index, and so on."""

DIVISOR = 16
# The divisors of integers that launches distinguish. A row of 7000 elements of 16 bits is accessed
# 16 bytes at a time since 7000 is a multiple of 8. An integer has at most five variants: one of
# these divisors, none, and 1.
DIVISORS = (16, 8, 4)
_HINTS = (tuple(map(str, DIVISORS)), (str(DIVISOR),))  # of integers, and of pointers
NOALIAS = "noalias"
ALIASED = "aliased"
UNORDERED = "unordered"
_FLAGS = (NOALIAS, ALIASED, UNORDERED)

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
    "float8e4b15": "fp8e4b15",
    "float8e4b8": "fp8e4b8",
    "float8e5b16": "fp8e5b16",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class ParameterType:
    """The type of a runtime argument and properties of its value: a divisor, or being 1.

    divisible: 1, or one of `DIVISORS`.

    noalias: the array that a pointer points to does not overlap an array that the kernel writes;
        if the kernel writes the array itself, it overlaps no other.
    aliased: the array may overlap those of other aliased pointers; without it, the compiler assumes
        that it does not, and launches are checked where code relies on that.
    unordered: where arrays of such aliased pointers overlap, a program needs no order between the
        accesses of its threads but that of its own barriers, unless they are at equal offsets.
    """

    type: Scalar | Pointer
    divisible: int = 1
    one: bool = False
    noalias: bool = False
    aliased: bool = False
    unordered: bool = False

    def __str__(self) -> str:
        hint = ":1" if self.one else f":{self.divisible}" if self.divisible > 1 else ""
        flags = [f":{flag}" for flag in _FLAGS if getattr(self, flag)]
        return spell_type(self.type) + hint + "".join(flags)


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
    spelling, *hints = text.replace(" ", "").split(":")
    ty = parse_type(spelling)
    properties: dict[str, Any] = {}
    for hint in hints:
        if hint == "1" and len(hints) == 1:
            _require_integer(ty, text, "known to be 1")
            properties["one"] = True
        elif hint in _HINTS[isinstance(ty, Pointer)] and not properties:
            if not isinstance(ty, Pointer):
                _require_integer(ty, text, f"divisible by {hint}")
            properties["divisible"] = int(hint)
        elif hint in _FLAGS and isinstance(ty, Pointer) and hint not in properties:
            properties[hint] = True
        else:
            raise ArgumentValueError(
                f"{short_repr(text)}: after the colon write {DIVISOR} for a value divisible by it, "
                f"{' or '.join(map(str, DIVISORS[1:]))} for such an integer, "
                f"1 for a value that is 1, or last {NOALIAS} for a pointer to memory that is not "
                f"written through another one, or {ALIASED} for one to memory that may be, not "
                f"{short_repr(hint)}"
            )
    return ParameterType(ty, **properties)


MOST_POINTERS = 16  # types are trees, which Python compares and prints recursively


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
    stars = len(spelling) - len(name)
    if stars > MOST_POINTERS:
        raise ArgumentValueError(
            f"{short_repr(spelling)} is a pointer to a pointer {stars} times; {MOST_POINTERS} are "
            "the most"
        )
    ty: Scalar | Pointer = scalar
    for _ in range(stars):
        ty = Pointer(ty)
    return ty


def _require_integer(ty: Scalar | Pointer, text: str, fact: str) -> None:
    if not ty.is_int() or ty == I1:
        raise ArgumentValueError(
            f"{short_repr(text)}: only an integer can be {fact}, and this is {spell_type(ty)}"
        )
