"""The table of promotion, cell by cell, and the types and texts that follow from it."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError, TileError
from tile.ir.types import EMULATED_FP8, SCALARS, Scalar
from tile.language import operators
from tile.language.base import promotion

NAMES = "i1 u8 i8 u16 i16 u32 i32 u64 i64 f8e4m3 f8e5m2 bf16 f16 f32 f64".split()

# Where two runtime values meet: rows and columns in the order of NAMES; x: nowhere.
MEETS = """
i1
u8  u8
i8  u8  i8
u16 u16 u16 u16
i16 i16 i16 u16 i16
u32 u32 u32 u32 u32 u32
i32 i32 i32 i32 i32 u32 i32
u64 u64 u64 u64 u64 u64 u64 u64
i64 i64 i64 i64 i64 i64 i64 u64 i64
x   x   x   x   x   x   x   x   x   f8e4m3
x   x   x   x   x   x   x   x   x   f16    f8e5m2
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32    f32    bf16
f16 f16 f16 f16 f16 f16 f16 f16 f16 f16    f16    f16  f16
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32    f32    f32  f32 f32
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64    f64    f64  f64 f64 f64
"""
ROWS = [line.split() for line in MEETS.split("\n") if line]
TABLE = {(NAMES[i], NAMES[j]): name for i, row in enumerate(ROWS) for j, name in enumerate(row)} | {
    (NAMES[j], NAMES[i]): name for i, row in enumerate(ROWS) for j, name in enumerate(row)
}
PAIRS = list(product(NAMES, NAMES))
SIGNED = {"i8", "i16", "i32", "i64"}
INTEGERS = {*SIGNED, "i1", "u8", "u16", "u32", "u64"}
REFUSALS = {
    "x": "have no common type; cast one of them",
    "mixed signedness": "they have different signedness",
}


def test_the_table_is_complete() -> None:
    assert {*NAMES, *(ty.ir_name for ty in EMULATED_FP8)} == set(SCALARS)
    assert set(TABLE) == set(PAIRS)


def met(left: str, right: str, *, dividing: bool = False) -> str:
    """The type at which two runtime values meet, or what the refusal is about."""
    try:
        return promotion.common_type(SCALARS[left], SCALARS[right], dividing=dividing).ir_name
    except CompilationError as error:
        for what, message in REFUSALS.items():
            if message in error.message:
                return what
        raise


@pytest.mark.parametrize("emulated", EMULATED_FP8, ids=str)
def test_an_emulated_float_promotes_like_other_8_bit_floats(emulated: Scalar) -> None:
    name = emulated.ir_name
    assert met(name, name) == name
    for other in NAMES:
        like = "f16" if other == "f8e4m3" else TABLE["f8e4m3", other]
        assert met(name, other) == met(other, name) == like


def divided(left: str, right: str) -> str:
    """The type of a quotient: narrow floats widen, and mixed signedness is refused."""
    expected = TABLE[left, right]
    if {left, right} <= INTEGERS and (left in SIGNED) != (right in SIGNED):
        return "mixed signedness"
    return "f32" if expected in {"f16", "bf16"} else expected


def test_where_two_runtime_values_meet() -> None:
    assert {pair: met(*pair) for pair in PAIRS} == TABLE


def test_a_division_widens_narrow_floats_and_refuses_mixed_signedness() -> None:
    assert {pair: met(*pair, dividing=True) for pair in PAIRS} == {
        pair: divided(*pair) for pair in PAIRS
    }


def result_of(op: str, left: str, right: str) -> str:
    """The element type that an operator gives, or `x` where it is refused."""
    met = TABLE[left, right]
    integers = met in INTEGERS
    if met in {"x", "f8e4m3", "f8e5m2"}:
        return "x"
    if op in {"<", "=="}:
        return "i1"
    if op in "+-*":
        return met
    if op in {"&", "|", "^"}:
        return met if integers else "x"
    if op in {"<<", ">>"}:
        return met if integers and met != "i1" else "x"
    if integers and (left in SIGNED) != (right in SIGNED):
        return "x"
    if integers:
        return "f32" if op == "/" else "x" if met == "i1" else met
    return "x" if op == "//" else "f32" if met in {"f16", "bf16"} else met


@pytest.mark.parametrize("op", "+ - * / // % & | ^ << >> < ==".split())
def test_what_an_operator_gives_for_every_pair_of_types(op: str) -> None:
    apply = operators.compare if op in {"<", "=="} else operators.binary
    for left, right in PAIRS:
        sketch = Sketch(f"tile<4x{left}>", f"tile<4x{right}>")
        expected = result_of(op, left, right)
        try:
            result = apply(sketch.build, op, *sketch.args)
        except TileError:
            assert expected == "x", f"{left} {op} {right} is refused"
        else:
            assert result.dtype.ir_name == expected, f"{left} {op} {right}"
            assert result.shape == (4,)
            sketch.end(result)


def test_a_number_of_no_higher_kind_takes_the_type_of_the_other_operand() -> None:
    numbers: list[tuple[bool | int | float, str]] = [(True, name) for name in NAMES]
    numbers += [(3, name) for name in NAMES if name != "i1"]
    for name in NAMES:
        if SCALARS[name].is_floating():
            numbers += [(2.5, name), (1 << 70, name), (1e300, name)]
    types = [
        (number, promotion.weak_type(number, SCALARS[name]).ir_name) for number, name in numbers
    ]
    assert types == numbers


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (2.5, "f32"),
        (float("inf"), "f32"),
        (float("nan"), "f32"),
        (0.0, "f32"),
        (1e300, "f64"),
        (1e-320, "f64"),
        (2.0**-127, "f64"),
        (-(2.0**-126), "f32"),
    ],
)
def test_a_fraction_makes_integers_floats(number: float, expected: str) -> None:
    types = {name: promotion.weak_type(number, SCALARS[name]).ir_name for name in INTEGERS}
    assert types == dict.fromkeys(INTEGERS, expected)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "i32"),
        (-1, "i32"),
        ((1 << 31) - 1, "i32"),
        (1 << 31, "u32"),
        ((1 << 32) - 1, "u32"),
        (1 << 32, "i64"),
        (-(1 << 31) - 1, "i64"),
        ((1 << 63) - 1, "i64"),
        (1 << 63, "u64"),
        ((1 << 64) - 1, "u64"),
    ],
)
def test_an_integer_alone_has_the_first_type_that_holds_it(number: int, expected: str) -> None:
    assert promotion.number_type(number).ir_name == expected
    assert promotion.weak_type(number, SCALARS["i1"]).ir_name == expected
    assert promotion.to_tensor(Sketch().build, number).dtype.ir_name == expected


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
def test_an_integer_that_no_type_holds(number: int) -> None:
    with pytest.raises(CompilationError, match=f"the integer {number} does not fit any type"):
        promotion.to_tensor(Sketch().build, number)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_a_number_divides_a_narrow_float_in_f32(name: str) -> None:
    assert promotion.weak_type(2, SCALARS[name], dividing=True).ir_name == "f32"
    assert promotion.weak_type(2.0, SCALARS[name], dividing=True).ir_name == "f32"


@pytest.mark.parametrize(
    ("name", "number", "op"),
    [
        ("i8", 128, "+"),
        ("i8", -129, "&"),
        ("u8", 256, "//"),
        ("u8", -1, "+"),
        ("i32", 1 << 31, "&"),
        ("u64", -1, "//"),
        ("u64", -1, "<"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(name: str, number: int, op: str) -> None:
    sketch = Sketch(f"tile<4x{name}>")
    apply = operators.compare if op == "<" else operators.binary
    ty: Scalar = SCALARS[name]
    spelled = f"tl.{'u' * (not ty.signed)}int{ty.bits}"
    expected = f"{number} is out of range for type {spelled} of the other operand"
    for a, b in ((sketch.args[0], number), (number, sketch.args[0])):
        with pytest.raises(CompilationError) as caught:
            apply(sketch.build, op, a, b)
        assert caught.value.message.startswith(f"{expected} of `{op}`")
        assert f"holds {ty.min_value} to {ty.max_value}" in caught.value.message


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("i8", 127, "i8"),
        ("i8", 128, "i32"),
        ("u8", -1, "i32"),
        ("i32", 1 << 31, "u32"),
        ("u32", 1 << 32, "i64"),
        ("i1", 2, "i32"),
        ("f16", 0.5, "f16"),
        ("f16", float("nan"), "f16"),
        ("f16", 0.1, "f32"),
        ("f16", 1e5, "f32"),
        ("f16", 2049, "f16"),
        ("bf16", 0.1, "f32"),
        ("bf16", 257, "f32"),
        ("f8e4m3", 0.1, "f32"),
        ("f32", 0.1, "f32"),
        ("f32", 1e300, "f64"),
        ("f64", 0.1, "f64"),
    ],
)
def test_a_number_is_compared_in_a_type_that_holds_it(
    name: str, number: float, expected: str
) -> None:
    """As in Triton: the bfloat16 next to 0.1 is greater than it, and -1 is no uint8."""
    assert promotion.compared_type(number, SCALARS[name]).ir_name == expected
    sketch = Sketch(f"tile<4x{name}>")
    (value,) = sketch.args
    for a, b in ((value, number), (number, value)):
        compared = operators.compare(sketch.build, "<", a, b).value.op
        assert [x.type.element.ir_name for x in compared.inputs] == [expected, expected]


def test_an_integer_that_no_float_holds() -> None:
    sketch = Sketch("f16")
    with pytest.raises(CompilationError, match=r"an integer of 1329 bits does not fit tl.float16"):
        tl.full.emit(sketch.build, (), 10**400, tl.float16)
    for number in (10**400, 10**300, 1 << 64, -(1 << 63) - 1):
        with pytest.raises(CompilationError, match=r"does not fit any type; the widest are 64"):
            operators.binary(sketch.build, "*", sketch.args[0], number)
    largest = (1 << 64) - 1
    assert operators.binary(sketch.build, "*", sketch.args[0], largest).dtype.ir_name == "f16"


def test_a_number_becomes_one_constant_of_the_shape_of_the_other_operand() -> None:
    sketch = Sketch("tile<4x2xu8>")
    operators.binary(sketch.build, "+", 3, sketch.args[0])
    operators.binary(sketch.build, "*", sketch.args[0], 2.5)
    assert sketch.text() == [
        "%v = const {value = 3} : tile<4x2xu8>",
        "%v_1 = add %v, %a : tile<4x2xu8>",
        "%v_2 = const {value = 2.5} : tile<4x2xf32>",
        "%v_3 = cast %a {to = f32} : tile<4x2xf32>",
        "%v_4 = mul %v_3, %v_2 : tile<4x2xf32>",
    ]


def test_a_scalar_is_cast_before_it_is_spread() -> None:
    sketch = Sketch("tile<4x2xf16>", "i32")
    operators.binary(sketch.build, "+", *sketch.args)
    assert sketch.text() == [
        "%v = cast %b {to = f16} : f16",
        "%v_1 = splat %v {shape = (4, 2)} : tile<4x2xf16>",
        "%v_2 = add %a, %v_1 : tile<4x2xf16>",
    ]


def test_missing_axes_are_added_on_the_left() -> None:
    sketch = Sketch("tile<2x4x8xf32>", "tile<4x1xf32>")
    operators.binary(sketch.build, "+", *sketch.args)
    assert sketch.text() == [
        "%v = expand_dims %b {axis = -3} : tile<1x4x1xf32>",
        "%v_1 = broadcast %v {shape = (2, 4, 8)} : tile<2x4x8xf32>",
        "%v_2 = add %a, %v_1 : tile<2x4x8xf32>",
    ]


def test_common_shapes_are_those_of_numpy() -> None:
    shapes = [(2,), (4,), (1, 4), (4, 1), (2, 1, 1), (8, 4)]
    pairs = list(combinations_with_replacement(shapes, 2))
    assert {pair: common_shape(*pair) for pair in pairs} == {
        pair: broadcast_shape(*pair) for pair in pairs
    }


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of tiles of two shapes, or None where that is refused."""
    try:
        return promotion.common_shape(a, b)
    except CompilationError as error:
        assert "cannot be broadcast together" in error.message
        return None


def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def test_shapes_that_do_not_fit_are_named() -> None:
    sketch = Sketch("tile<4x8xf32>", "tile<16xf32>")
    with pytest.raises(CompilationError) as caught:
        operators.binary(sketch.build, "+", *sketch.args)
    assert caught.value.message == (
        "shapes [4, 8] and [16] cannot be broadcast together: axis 1 has extents 8 and 16, "
        "of which "
        "neither is 1"
    )


@pytest.mark.parametrize(
    ("number", "to", "expected"),
    [
        (3, "i8", "const {value = 3} : tile<2xi8>"),
        (3.7, "i32", "const {value = 3} : tile<2xi32>"),
        (1, "f16", "const {value = 1.0} : tile<2xf16>"),
        (2, "i1", "const {value = true} : tile<2xi1>"),
        (-1, "u8", "cast %v {to = u8} : tile<2xu8>"),
        (float("inf"), "i32", "cast %v {to = i32} : tile<2xi32>"),
        (1e10, "i32", "cast %v {to = i32} : tile<2xi32>"),
    ],
)
def test_constants_convert_as_values_do(number: float, to: str, expected: str) -> None:
    sketch = Sketch(f"tile<2x{to}>")
    promotion.constant(sketch.build, number, sketch.args[0].type)
    assert sketch.text()[-1].endswith(expected)
