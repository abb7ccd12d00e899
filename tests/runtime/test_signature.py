from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.types import ALL, BF16, F8E4M3, F32, I1, I32, INTEGERS, U64, Pointer
from tile.runtime.signature import (
    SYNONYMS,
    ParameterType,
    parse_signature_type,
    parse_type,
    spell_type,
)

POINTERS = st.recursive(st.sampled_from(ALL), lambda inner: inner.map(Pointer), max_leaves=3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fp32", ParameterType(F32)),
        ("*fp32", ParameterType(Pointer(F32))),
        ("**fp32", ParameterType(Pointer(Pointer(F32)))),
        ("*fp8e4nv:16", ParameterType(Pointer(F8E4M3), 16)),
        ("i32:16", ParameterType(I32, 16)),
        ("i32:8", ParameterType(I32, 8)),
        ("i32:4", ParameterType(I32, 4)),
        ("i32:1", ParameterType(I32, one=True)),
        (" * bf16 : 16", ParameterType(Pointer(BF16), 16)),
        ("*fp32:noalias", ParameterType(Pointer(F32), noalias=True)),
        ("*fp32:16:noalias", ParameterType(Pointer(F32), 16, noalias=True)),
        ("*fp32:16:aliased", ParameterType(Pointer(F32), 16, aliased=True)),
        (
            "*fp32:aliased:unordered",
            ParameterType(Pointer(F32), aliased=True, unordered=True),
        ),
        ("u64", ParameterType(U64)),
        ("u1", ParameterType(I1)),
        ("*bool", ParameterType(Pointer(I1))),
        ("*float32", ParameterType(Pointer(F32))),
    ],
)
def test_reads_types(text: str, expected: ParameterType) -> None:
    assert parse_signature_type(text) == expected


@given(POINTERS, st.sampled_from([1, 16]), st.booleans())
def test_prints_what_it_reads(ty, divisible, noalias) -> None:
    if divisible > 1 and not isinstance(ty, Pointer) and ty not in INTEGERS:
        divisible = 1
    noalias = noalias and isinstance(ty, Pointer)
    specialized = ParameterType(ty, divisible, noalias=noalias)
    assert parse_signature_type(str(specialized)) == specialized
    assert parse_type(spell_type(ty)) == ty


@given(st.sampled_from(INTEGERS))
def test_prints_ones(ty) -> None:
    specialized = ParameterType(ty, one=True)
    assert str(specialized) == f"{ty.alias}:1"
    assert parse_signature_type(str(specialized)) == specialized


def test_every_synonym_names_a_type_of_its_own_width() -> None:
    for spelling in SYNONYMS:
        digits = "".join(c for c in spelling if c.isdigit())
        bits = 1 if spelling == "bool" else 8 if "float8" in spelling else int(digits or 0)
        assert parse_type(spelling).bits == bits, spelling


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f32", ["no type 'f32'", "did you mean fp32?", "fp8e4nv", "i64", "**"]),
        ("*" * 5000 + "fp32", ["is a pointer to a pointer 5000 times; 16 are the most"]),
        ("*flaot32", ["no type '*flaot32'", "did you mean *float32?"]),
        ("", ["no type ''"]),
        ("*", ["no type '*'"]),
        ("i32:2", ["'i32:2'", "16", "8 or 4", "not '2'"]),
        ("*fp32:8", ["'*fp32:8'", "16", "not '8'"]),
        ("i32:", ["not ''"]),
        ("fp32:16", ["only an integer can be divisible by 16", "fp32"]),
        ("fp32:1", ["only an integer can be known to be 1"]),
        ("*fp32:1", ["only an integer can be known to be 1", "*fp32"]),
        ("i1:16", ["only an integer"]),
        ("i32:noalias", ["last noalias for a pointer", "not 'noalias'"]),
        ("*fp32:noalias:16", ["last noalias", "not '16'"]),
        ("*fp32:noalias:noalias", ["not 'noalias'"]),
        ("i32:16:1", ["not '1'"]),
    ],
)
def test_refuses_values(text: str, words: list[str]) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        parse_signature_type(text)
    for word in words:
        assert word in str(caught.value)


def test_refuses_what_is_no_text() -> None:
    with pytest.raises(ArgumentTypeError, match=r"text such as '\*fp32', not 3"):
        parse_signature_type(3)
