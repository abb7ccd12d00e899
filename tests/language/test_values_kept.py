"""Numbers and casts that would change a value without a word: refused where Triton refuses them."""

from __future__ import annotations

from typing import Any

import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.language.base.builtin import DESCRIPTOR_MEMBERS

I32, U32 = "tl.int32 holds the integers -2147483648 to 2147483647", "tl.uint32 holds"


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (1 << 40, tl.int32, f"the value of tl.full is 1099511627776, and {I32}"),
        (-(1 << 31) - 1, tl.int32, f"the value of tl.full is -2147483649, and {I32}"),
        (1.5, tl.int32, f"the value of tl.full is 1.5, and {I32}"),
        (float("inf"), tl.int32, f"the value of tl.full is inf, and {I32}"),
        (float("nan"), tl.int64, "the value of tl.full is nan, and tl.int64 holds"),
        (-1, tl.uint32, f"the value of tl.full is -1, and {U32} the integers 0 to 4294967295"),
        (300, tl.uint8, "the value of tl.full is 300, and tl.uint8 holds the integers 0 to 255"),
        (256, tl.int8, "the value of tl.full is 256, and tl.int8 holds the integers -128 to 127"),
    ],
)
def test_full_refuses_numbers_that_the_dtype_cannot_have(
    value: float, dtype: Any, message: str
) -> None:
    with pytest.raises(CompilationError) as caught:
        tl.full.emit(Sketch().build, (4,), value, dtype)
    assert caught.value.message.startswith(message)
    assert caught.value.message.endswith("; tl.cast converts it as it converts runtime values")


@pytest.mark.parametrize(
    ("value", "dtype", "constant"),
    [
        (0.0, tl.int32, "0 : tile<4xi32>"),
        (2.0, tl.int32, "2 : tile<4xi32>"),
        ((1 << 32) - 1, tl.uint32, "4294967295 : tile<4xu32>"),
        (1e9, tl.float16, "1000000000.0 : tile<4xf16>"),
        (2, tl.int1, "true : tile<4xi1>"),
    ],
)
def test_full_takes_other_numbers(value: float, dtype: Any, constant: str) -> None:
    sketch = Sketch()
    tl.full.emit(sketch.build, (4,), value, dtype)
    number, _, ty = constant.partition(" ")
    assert sketch.text() == [f"%v = const {{value = {number}}} {ty}"]


def test_full_takes_patterns_of_bits() -> None:
    sketch = Sketch()
    assert tl.full.emit(sketch.build, (), 0xFFFFFFFF, tl.int32).dtype is tl.int32
    assert sketch.text()[-1] == "%v_1 = cast %v {to = i32} : i32"


Arguments = tuple[Any, ...]
COMPARED: list[tuple[Any, str, Arguments, str]] = [
    (tl.atomic_cas, "ptr<i32>", (1.5, 1), f"the cmp of tl.atomic_cas is 1.5, and {I32}"),
    (tl.atomic_cas, "ptr<i32>", (1, 1.5), f"the val of tl.atomic_cas is 1.5, and {I32}"),
    (tl.atomic_cas, "ptr<i16>", (65536, 1), "the cmp of tl.atomic_cas is 65536, and tl.int16"),
    (tl.atomic_cas, "ptr<i32>", (1 << 40, 1), f"the cmp of tl.atomic_cas is {1 << 40}, and {I32}"),
    (tl.atomic_poll, "ptr<i32>", (1.5,), "the expected_value of tl.atomic_poll is 1.5, and"),
    (tl.atomic_poll, "ptr<u8>", (256,), "the expected_value of tl.atomic_poll is 256, and"),
]


@pytest.mark.parametrize(("function", "pointer", "arguments", "message"), COMPARED)
def test_numbers_that_memory_cannot_equal_are_refused(
    function: Any, pointer: str, arguments: Arguments, message: str
) -> None:
    sketch = Sketch(pointer)
    with pytest.raises(CompilationError) as caught:
        function.emit(sketch.build, *sketch.args, *arguments)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("pointer", "operand"),
    [("i32", "f32"), ("f32", "i32"), ("i32", "i64"), ("f16", "f32"), ("u32", "u64"), ("f32", "i1")],
)
def test_casts_that_change_what_is_compared_are_refused(pointer: str, operand: str) -> None:
    for types, parameter in (((operand, pointer), "cmp"), ((pointer, operand), "val")):
        sketch = Sketch(f"ptr<{pointer}>", *types)
        with pytest.raises(CompilationError) as caught:
            tl.atomic_cas.emit(sketch.build, *sketch.args)
        message = caught.value.message
        assert message.startswith(f"the {parameter} of tl.atomic_cas is of tl.")
        assert ", and memory holds tl." in message and "; cast it, as in x.to(tl." in message


@pytest.mark.parametrize(
    ("pointer", "operand"),
    [("i32", "i32"), ("u32", "i32"), ("i32", "u32"), ("i64", "i32"), ("f32", "f16"), ("i32", "i1")],
)
def test_other_casts_are_made(pointer: str, operand: str) -> None:
    sketch = Sketch(f"tile<4xptr<{pointer}>>", operand, f"tile<4x{operand}>")
    assert str(tl.atomic_cas.emit(sketch.build, *sketch.args).type) == f"tile<4x{pointer}>"


@pytest.mark.parametrize("number", [-1, 0, 0xFFFFFFFF])
@pytest.mark.parametrize("element", ["i32", "u32"])
def test_numbers_are_patterns_of_bits(number: int, element: str) -> None:
    sketch = Sketch(f"ptr<{element}>")
    tl.atomic_cas.emit(sketch.build, *sketch.args, number, 0)


def test_descriptors_keep_values() -> None:
    sketch = Sketch("desc<4x4xi32>", "tile<4x4xf32>")
    descriptor, block = sketch.args
    with pytest.raises(CompilationError, match=r"value of tl.store_tensor_descriptor is 1\.5, and"):
        tl.store_tensor_descriptor.emit(sketch.build, descriptor, [0, 0], 1.5)
    tl.store_tensor_descriptor.emit(sketch.build, descriptor, [0, 0], block)
    add = DESCRIPTOR_MEMBERS["atomic_add"]
    with pytest.raises(CompilationError, match=r"is of tl\.float32, and memory holds tl\.int32"):
        add.emit(sketch.build, descriptor, [0, 0], block)


@pytest.mark.parametrize("mask", [1.5, 2, -1, float("nan")])
def test_numbers_are_no_masks(mask: float) -> None:
    sketch = Sketch("ptr<f32>")
    with pytest.raises(CompilationError, match=r"the mask of tl\.load is True or False, not"):
        tl.load.emit(sketch.build, *sketch.args, mask)


def test_integers_of_more_than_64_bits_are_no_operands() -> None:
    sketch = Sketch("f32")
    with pytest.raises(CompilationError, match="does not fit any type; the widest are 64 bits"):
        tl.add.emit(sketch.build, *sketch.args, 1 << 200)
