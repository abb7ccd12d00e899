"""The names of Triton-C's scalar types, in every order of words that C allows."""

from __future__ import annotations

import itertools

import pytest

from tile import triton_c
from tile.errors import CompilationError
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
)

NAMES: dict[Scalar, tuple[str, ...]] = {
    I1: ("bool",),
    I8: ("char", "signed char", "int8_t"),
    U8: ("unsigned char", "uint8_t"),
    I16: ("short", "short int", "signed short", "signed short int", "int16_t"),
    U16: ("unsigned short", "unsigned short int", "uint16_t"),
    I32: ("int", "signed", "signed int", "int32_t"),
    U32: ("unsigned", "unsigned int", "uint32_t"),
    I64: (
        "long", "long int", "signed long", "signed long int", "long long", "long long int",
        "signed long long", "signed long long int", "int64_t",
    ),
    U64: (
        "unsigned long", "unsigned long int", "unsigned long long", "unsigned long long int",
        "uint64_t",
    ),
    F16: ("half",),
    BF16: ("bfloat16",),
    F32: ("float",),
    F64: ("double",),
    F8E4M3: ("float8_e4m3",),
    F8E5M2: ("float8_e5m2",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "ty"),
    [
        (" ".join(words), ty)
        for ty, names in NAMES.items()
        for name in names
        for words in dict.fromkeys(itertools.permutations(name.split()))
    ],
)
def test_a_type_has_its_names(name: str, ty: Scalar) -> None:
    program = triton_c.compile(f"kernel void f({name} x, {name}* p) {{ *p = x; }}")
    assert [parameter.annotation for parameter in program.f.jit.parameters] == [ty, Pointer(ty)]


@pytest.mark.parametrize(
    "name",
    [
        "unsigned float", "long double", "short char", "signed unsigned", "long long long",
        "unsigned bool", "half float", "int int", "unsigned int8_t", "signed float", "signed bool",
    ],
)  # fmt: skip
def test_words_that_name_no_type(name: str) -> None:
    with pytest.raises(CompilationError) as refusal:
        triton_c.compile(f"kernel void f({name} x) {{ }}")
    assert name in refusal.value.message
    assert refusal.value.loc is not None and refusal.value.loc.line == 1
