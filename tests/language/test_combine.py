"""tl.reduce and tl.associative_scan with functions of the language, on every type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.ir import semantics
from tile.ir.types import FLOATS, INTEGERS, Scalar
from tile.language.base.builtin import Builtin, builtin
from tile.language.operators import binary, compare
from tile.language.tensor_methods import tensor_attribute

SHAPES = [(4,), (1,), (2, 4), (4, 1, 2)]


@builtin
def plus(build: Any, a: Any, b: Any) -> Any:
    return binary(build, "+", a, b)


@builtin
def later(build: Any, a: Any, b: Any) -> Any:
    return b


@builtin
def greater(build: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """The greater value with its index, the first of equal ones."""
    keep = compare(build, ">=", a, b)
    return tl.where.emit(build, keep, a, b), tl.where.emit(build, keep, i, j)


def tile(shape: tuple[int, ...], element: str) -> str:
    return f"tile<{'x'.join(map(str, shape))}x{element}>"


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(SHAPES), st.booleans(), st.booleans(), st.data())
def test_axes_are_those_of_numpy(
    shape: tuple[int, ...], keep_dims: bool, reverse: bool, data: Any
) -> None:
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    x = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-9, 9, shape).astype(np.int32)
    sketch = Sketch(tile(shape, "i32"))
    (a,) = sketch.args
    total = tl.reduce.emit(sketch.build, a, axis, plus, keep_dims=keep_dims)
    along = 0 if axis is None else axis
    running = tl.associative_scan.emit(sketch.build, a, along, plus, reverse)
    actual, scanned = sketch.run((total, running), x)
    every = tuple(range(x.ndim)) if axis is None else axis
    np.testing.assert_array_equal(actual, x.sum(axis=every, keepdims=keep_dims))
    read = np.flip(x, along) if reverse else x
    expected = read.cumsum(along)
    np.testing.assert_array_equal(scanned, np.flip(expected, along) if reverse else expected)


@pytest.mark.parametrize("ty", [*INTEGERS, *FLOATS], ids=str)
def test_every_type_is_combined_in_itself(ty: Scalar) -> None:
    dtype = semantics.numpy_dtype(ty)
    x = np.arange(1, 9).reshape(2, 4).astype(dtype)
    sketch = Sketch(tile((2, 4), ty.ir_name))
    (a,) = sketch.args
    total = tl.reduce.emit(sketch.build, a, 1, plus)
    running = tl.associative_scan.emit(sketch.build, a, 1, plus)
    assert total.dtype is running.dtype is ty
    actual, scanned = sketch.run((total, running), x)
    np.testing.assert_array_equal(actual.astype(float), [10, 26])
    np.testing.assert_array_equal(scanned.astype(float), np.arange(1, 9).reshape(2, 4).cumsum(1))


def test_bfloat16_is_rounded_after_each_step() -> None:
    """256 + 1 is 256 in bfloat16: adjacent elements first, then their sums."""
    bf16 = semantics.numpy_dtype(tl.bfloat16)
    sketch = Sketch("tile<4xbf16>")
    total = tl.reduce.emit(sketch.build, *sketch.args, 0, plus)
    assert float(sketch.run(total, np.array([256, 1, 1, 1]).astype(bf16))) == 258


@pytest.mark.parametrize("function", [tl.minimum, tl.maximum, tl.add, tl.mul], ids=repr)
def test_functions_of_the_language_combine(function: Builtin[..., Any]) -> None:
    x = np.float32([[3, -1, 4, 2], [5, 9, -2, 6]])
    sketch = Sketch("tile<2x4xf32>")
    actual = sketch.run(tl.reduce.emit(sketch.build, *sketch.args, 1, function), x)
    reductions = {"minimum": np.min, "maximum": np.max, "add": np.sum, "mul": np.prod}
    np.testing.assert_array_equal(actual, reductions[function.name](x, axis=1))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_a_tuple_gives_a_tuple(axis: Any, keep_dims: bool) -> None:
    x = np.random.default_rng(1).permutation(32).reshape(4, 8).astype(np.float32)
    index = np.arange(32, dtype=np.int32).reshape(4, 8)
    sketch = Sketch("tile<4x8xf32>", "tile<4x8xi32>")
    results = tl.reduce.emit(sketch.build, tuple(sketch.args), axis, greater, keep_dims)
    assert isinstance(results, tuple)
    best, where = sketch.run(results, x, index)
    np.testing.assert_array_equal(best, x.max(axis, keepdims=keep_dims))
    np.testing.assert_array_equal(index.ravel()[where], where)
    np.testing.assert_array_equal(x.ravel()[where], best)


def test_a_tuple_of_one_gives_a_tuple_of_one() -> None:
    sketch = Sketch("tile<8xf32>")
    results = tl.associative_scan.emit(sketch.build, tuple(sketch.args), 0, plus)
    assert isinstance(results, tuple)
    assert len(results) == 1
    np.testing.assert_array_equal(
        sketch.run(results, np.ones(8, np.float32))[0], np.arange(1, 9, dtype=np.float32)
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_the_first_argument_is_what_was_read_before(reverse: bool) -> None:
    x = np.arange(8, dtype=np.int32)
    sketch = Sketch("tile<8xi32>")

    @builtin
    def earlier(build: Any, a: Any, b: Any) -> Any:
        return a

    (a,) = sketch.args
    scanned = tl.associative_scan.emit(sketch.build, a, 0, later, reverse)
    first = tl.associative_scan.emit(sketch.build, a, 0, earlier, reverse)
    own, end = sketch.run((scanned, first), x)
    np.testing.assert_array_equal(own, x)
    np.testing.assert_array_equal(end, np.full(8, 7 if reverse else 0))


def test_methods() -> None:
    sketch = Sketch("tile<8xi32>")
    (a,) = sketch.args
    total = tensor_attribute(sketch.build, a, "reduce").emit(sketch.build, 0, plus)
    running = tensor_attribute(sketch.build, a, "associative_scan").emit(sketch.build, 0, plus)
    actual, scanned = sketch.run((total, running), np.ones(8, np.int32))
    assert actual == 8
    np.testing.assert_array_equal(scanned, np.arange(1, 9))


def test_a_number_takes_the_type_of_the_tile() -> None:
    @builtin
    def three(build: Any, a: Any, b: Any) -> Any:
        return 3

    for element in ("i8", "bf16", "f32", "u64"):
        sketch = Sketch(f"tile<4x{element}>")
        total = tl.reduce.emit(sketch.build, *sketch.args, 0, three)
        x = np.zeros(4).astype(semantics.numpy_dtype(total.dtype))
        assert float(sketch.run(total, x)) == 3


def returning(result: Any) -> Builtin[..., Any]:
    @builtin
    def wrong(build: Any, *scalars: Any) -> Any:
        return result(build, *scalars) if callable(result) else result

    return wrong


REFUSED: list[tuple[str, tuple[str, ...], Any, str]] = [
    ("reduce", ("f32",), plus, "tl.reduce takes a tile, not a scalar of type f32"),
    (
        "reduce",
        ("tile<4xptr<f32>>",),
        plus,
        "tl.reduce is not defined on tl.pointer_type(tl.float32)",
    ),
    (
        "associative_scan",
        ("tile<4xf32>", "tile<8xi32>"),
        plus,
        "tl.associative_scan takes tiles of one shape, not tile<4xf32> and tile<8xi32>",
    ),
    (
        "reduce",
        ("tile<4xf32>",),
        "sum",
        "the combine_fn of tl.reduce is a @tile.jit function, not 'sum' (str)",
    ),
    (
        "reduce",
        ("tile<4xf32>", "tile<4xi32>"),
        returning(lambda build, a, i, b, j: a),
        "`wrong`, the combine_fn of tl.reduce, returns 1 value, and not one for each of 2 tiles",
    ),
    (
        "reduce",
        ("tile<4xbf16>",),
        tl.maximum,
        "`maximum`, the combine_fn of tl.reduce, returns tl.float32 where the tile has "
        "elements of tl.bfloat16; convert one to the other",
    ),
    (
        "associative_scan",
        ("tile<4xi32>",),
        returning(1.5),
        "`wrong`, the combine_fn of tl.associative_scan, returns 1.5 where the tile has elements "
        "of tl.int32; convert one to the other",
    ),
    (
        "reduce",
        ("tile<4xf32>",),
        returning(None),
        "`wrong`, the combine_fn of tl.reduce, returns None where the tile has elements of "
        "tl.float32; convert one to the other",
    ),
    (
        "reduce",
        ("tile<4xf32>",),
        returning(lambda build, a, b: tl.full.emit(build, (1,), a, tl.float32)),
        "`wrong`, the combine_fn of tl.reduce, returns tile<1xf32> where the tile has elements of "
        "tl.float32; convert one to the other",
    ),
    (
        "reduce",
        ("tile<4xi32>",),
        returning(lambda build, a, b: tl.program_id.emit(build, 0)),
        "tl.reduce combines by arithmetic, comparison, selection and `if` of scalars; `program_id` "
        "is not allowed there",
    ),
]


@pytest.mark.parametrize(("name", "types", "function", "message"), REFUSED)
def test_what_is_refused(name: str, types: tuple[str, ...], function: Any, message: str) -> None:
    sketch = Sketch(*types)
    args = tuple(sketch.args) if len(types) > 1 else sketch.args[0]
    with pytest.raises(CompilationError) as caught:
        getattr(tl, name).emit(sketch.build, args, 0, function)
    assert caught.value.message == message


def test_an_empty_tuple_is_refused() -> None:
    with pytest.raises(CompilationError, match="at least one tile, not an empty tuple"):
        tl.reduce.emit(Sketch().build, (), 0, plus)


def test_an_axis_outside_is_refused() -> None:
    sketch = Sketch("tile<4x8xf32>")
    with pytest.raises(CompilationError, match=r"invalid axis 2 of tl\.reduce: a tile of rank 2"):
        tl.reduce.emit(sketch.build, *sketch.args, 2, plus)
    with pytest.raises(CompilationError, match=r"invalid axis -3 of tl\.associative_scan"):
        tl.associative_scan.emit(sketch.build, *sketch.args, -3, plus)
