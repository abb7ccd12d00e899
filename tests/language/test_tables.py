"""Lookup tables, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.language import operators
from tile.language.base.constexpr import constexpr

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.uint64, np.bool_, ml_dtypes.bfloat16)


def entries(table: Any, *indices: Any) -> Any:
    """Return the entries that a kernel finds at arrays of indices."""
    arrays = [np.asarray(index) for index in indices]
    shapes = ["x".join(map(str, array.shape)) for array in arrays]
    sketch = Sketch(*[f"tile<{shape}xi32>" if shape else "i32" for shape in shapes])
    index = sketch.args[0] if len(indices) == 1 else tuple(sketch.args)
    result = operators.subscript(sketch.build, constexpr(table).value, index)
    return sketch.run(result, *[array.astype(np.int32) for array in arrays])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 64) | st.integers(65, 300),
    st.sampled_from(DTYPES),
    st.randoms(use_true_random=False),
)
def test_entries_of_an_array(count: int, dtype: Any, random: Any) -> None:
    table = np.array([random.randint(0, 3) for _ in range(count)]).astype(dtype)
    at = np.array([random.randrange(count) for _ in range(8)])
    actual = entries(table, at)
    assert actual.dtype == table.dtype
    np.testing.assert_array_equal(actual, table[at])


def test_an_index_for_each_axis() -> None:
    table = np.arange(3 * 2 * 5, dtype=np.int16).reshape(3, 2, 5)
    i, j, k = np.array([0, 2, 1, 2]), np.array(1), np.array([4, 0, 3, 2])
    np.testing.assert_array_equal(entries(table, i, j, k), table[i, j, k])


def test_numbers_take_the_first_type_that_holds_all() -> None:
    at = np.array([0, 1])
    for table, dtype in (
        ((1, 2), np.int32),
        ((1, 2**31), np.uint32),
        ((-1, 2**31), np.int64),
        ((1, 2.5), np.float32),
        ((True, False), np.bool_),
    ):
        actual = entries(table, at)
        assert actual.dtype == dtype
        np.testing.assert_array_equal(actual, table)


def test_zeros_keep_their_signs() -> None:
    actual = entries(np.array([0.0, -0.0], np.float32), np.array([0, 1]))
    np.testing.assert_array_equal(np.signbit(actual), [False, True])


def test_large_tables_are_loaded() -> None:
    sketch = Sketch("tile<8xi32>")
    operators.subscript(sketch.build, tuple(range(65)), sketch.args[0])
    first, *_ = sketch.text()
    assert "table %a {of = u32, entries = (0, 1, 2," in first and first.count(" 0") == 63


def test_gather_takes_a_table() -> None:
    at = np.array([[0, 1, 3, 2], [1, 1, 3, 0]], np.int32)
    for count, axis in itertools.product((4, 100), ((), (0,), (-1,))):
        table = tuple(range(10, 10 + count))
        sketch = Sketch("tile<2x4xi32>")
        result = tl.gather.emit(sketch.build, table, sketch.args[0], *axis)
        np.testing.assert_array_equal(sketch.run(result, at), at + 10)
    with pytest.raises(CompilationError, match="a table has one axis"):
        tl.gather.emit(sketch.build, table, sketch.args[0], 1)
    with pytest.raises(CompilationError, match=r"the axis of tl\.gather"):
        tl.gather.emit(sketch.build, sketch.args[0], sketch.args[0])


def test_equal_parts_of_a_table_take_no_selects() -> None:
    sketch = Sketch("tile<8xi32>")
    operators.subscript(sketch.build, (5, 5, 5, 5, 7, 7), sketch.args[0])
    assert sum("select" in line for line in sketch.text()) == 1


def test_compile_time_indices_give_numbers() -> None:
    table = constexpr(np.arange(6, dtype=np.int32).reshape(2, 3)).value
    sketch = Sketch("i32")
    two = tl.to_tensor.emit(sketch.build, 2)
    assert operators.subscript(sketch.build, table, (1, two)) == 5
    assert operators.subscript(sketch.build, table, -1) == (3, 4, 5)


def test_an_array_is_copied() -> None:
    array = np.zeros(2, np.int32)
    table = constexpr(array)
    array[0] = 1
    assert table.value == (0, 0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((1,) * ((1 << 16) + 1), "at most 65,536 entries, and this has 65,537"),
        ((), "it is empty"),
        ((1, "a"), "only a table of compile-time numbers"),
        (((1, 2), (3,)), "differ in length"),
        (((1, 2), 3), "differ in length"),
        ((None, 1), r"by runtime values, and this has None"),
        (tuple(np.array([1, 2]).astype(ml_dtypes.int4)), "there are no tables of int4"),
        (((1, 2), (3, 4)), r"a table of shape \[2, 2\] takes 2 indices, not 1"),
    ],
)
def test_refusals(table: Any, message: str) -> None:
    sketch = Sketch("i32")
    with pytest.raises(CompilationError, match=message):
        operators.subscript(sketch.build, table, sketch.args[0])


def test_an_array_without_axes_is_a_number() -> None:
    assert tl.constexpr(np.array(3)).value == 3


def test_indices_are_integers() -> None:
    sketch = Sketch("tile<4xf32>")
    with pytest.raises(CompilationError, match="an index into a table is an integer"):
        operators.subscript(sketch.build, (1, 2), sketch.args[0])
