"""Math functions, selection, and library functions."""

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
from tile.ir.declare import OPS
from tile.ir.ops import math as math_ops
from tile.ir.types import SCALARS

REAL = [defn.name for defn in OPS if defn.accepts == math_ops.REALS]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("ty", ["f32", "tile<4x2xf64>"])
def test_a_function_of_one_real_number_is_one_operation(name: str, ty: str) -> None:
    sketch = Sketch(ty)
    result = getattr(tl, name).emit(sketch.build, *sketch.args)
    assert sketch.text() == [f"%v = {name} %a : {ty}"]
    assert result.type == sketch.args[0].type
    assert getattr(tl.math, name) is getattr(tl, name)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("element", ["f16", "bf16", "f8e5m2", "i32", "i1"])
def test_errors_for_other_types_name_the_missing_cast(name: str, element: str) -> None:
    sketch = Sketch(f"tile<4x{element}>")
    with pytest.raises(CompilationError) as caught:
        getattr(tl, name).emit(sketch.build, *sketch.args)
    assert caught.value.message == (
        f"tl.{name} takes tl.float32 or tl.float64, not tile<4x{element}>; cast first: "
        f"tl.{name}(x.to(tl.float32))"
    )


def test_a_number_is_a_float_to_a_real_function() -> None:
    sketch = Sketch()
    assert tl.sqrt.emit(sketch.build, 2).type is tl.float32
    with pytest.raises(
        CompilationError,
        match=r"the argument of tl.exp must be a tile, a scalar or a number, not None",
    ):
        tl.exp.emit(sketch.build, None)


def test_magnitudes() -> None:
    sketch = Sketch("tile<3xi8>".replace("3", "4"), "u8", "f16", "i1")
    i, u, f, b = sketch.args
    build = sketch.build
    assert tl.abs.emit(build, u) is u
    assert tl.abs.emit(build, b) is b
    assert tl.abs.emit(build, -3) == 3
    results = (tl.abs.emit(build, i), tl.abs.emit(build, f))
    actual = sketch.run(
        results, np.int8([-128, -1, 0, 5]), np.uint8(3), np.float16(-0.0), np.bool_(True)
    )
    assert [x.tolist() for x in actual] == [[-128, 1, 0, 5], 0.0]
    other = Sketch("f8e4m3")
    with pytest.raises(CompilationError, match=r"`tl.abs` is not defined on tl.float8e4nv"):
        tl.abs.emit(other.build, *other.args)


def test_fma_and_the_divisions() -> None:
    sketch = Sketch("tile<4xf16>", "f32", "tile<2x1xf32>")
    h, s, t = sketch.args
    build = sketch.build
    assert str(tl.fma.emit(build, h, s, t).type) == "tile<2x4xf32>"
    assert str(tl.fma.emit(build, h, 2, 1).type) == "tile<4xf16>"
    assert str(tl.fdiv.emit(build, h, 3.0).type) == "tile<4xf16>"
    assert " = div %a, " in sketch.text()[-1]
    assert str(tl.fdiv.emit(build, s, h, ieee_rounding=True).type) == "tile<4xf32>"
    assert "div_rn" in sketch.text()[-1]
    assert str(tl.div_rn.emit(build, s, h).type) == "tile<4xf32>"
    tl.fdiv.emit(build, s, h, approx=True)
    assert " = div %" in sketch.text()[-1]
    with pytest.raises(CompilationError, match=r"tl.fdiv takes ieee_rounding or approx, not both"):
        tl.fdiv.emit(build, s, h, True, True)
    with pytest.raises(CompilationError, match=r"tl.fdiv divides floats, not 1 and 2; write x / y"):
        tl.fdiv.emit(build, 1, 2)
    with pytest.raises(
        CompilationError, match=r"tl.div_rn takes tl.float32 or tl.float64, not tile<4xf16> and 2"
    ):
        tl.div_rn.emit(build, h, 2)
    sketch.end()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["i32", "u32", "i64", "u64"]), st.data())
def test_umulhi_is_of_unsigned_numbers(name: str, data: Any) -> None:
    ty = SCALARS[name]
    a, b = (data.draw(st.integers(ty.min_value, ty.max_value)) for _ in range(2))
    sketch = Sketch(name, name)
    dtype = semantics.numpy_dtype(ty)
    actual = sketch.run(
        tl.umulhi.emit(sketch.build, *sketch.args), np.array(a, dtype), np.array(b, dtype)
    )
    mask = (1 << ty.bits) - 1
    assert int(actual) & mask == ((a & mask) * (b & mask)) >> ty.bits


def test_umulhi_wants_wide_integers() -> None:
    sketch = Sketch("i16", "f32")
    for x, name in zip(sketch.args, ("int16", "float32"), strict=True):
        with pytest.raises(
            CompilationError, match=f"takes integers of 32 or 64 bits, not tl.{name}"
        ):
            tl.umulhi.emit(sketch.build, x, x)


def test_where() -> None:
    sketch = Sketch("tile<2x1xi1>", "tile<4xi32>", "f16", "i32", "tile<4xptr<f32>>")
    c, x, y, n, p = sketch.args
    build = sketch.build
    assert str(tl.where.emit(build, c, x, y).type) == "tile<2x4xf16>"
    assert str(tl.where.emit(build, c, x, 0).type) == "tile<2x4xi32>"
    assert str(tl.where.emit(build, n, 1, 0.5).type) == "f32"
    assert str(tl.where.emit(build, x, n, n).type) == "tile<4xi32>"
    assert str(tl.where.emit(build, n, p, p).type) == "tile<4xptr<f32>>"
    assert str(tl.where.emit(build, True, x, x).type) == "tile<4xi32>"
    sketch.end()


def test_where_chooses() -> None:
    sketch = Sketch("tile<4xi1>", "tile<4xf32>")
    c, x = sketch.args
    actual = sketch.run(
        tl.where.emit(sketch.build, c, x, float("-inf")),
        np.array([1, 0, 0, 1], bool),
        np.float32([1, 2, np.nan, 4]),
    )
    assert actual.tolist() == [1, -np.inf, -np.inf, 4]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("f16", "f16", "f16"),
        ("f16", 0.0, "f32"),
        ("bf16", "bf16", "f32"),
        ("bf16", 0, "f32"),
        ("f16", 0, "f16"),
        ("i8", 0, "i32"),
        ("i1", "i1", "i1"),
        ("i32", "f16", "f16"),
        (1, 2.5, "f32"),
        (1, 1 << 40, "i64"),
    ],
)
def test_the_types_of_extrema(left: Any, right: Any, expected: str) -> None:
    types = [x for x in (left, right) if isinstance(x, str)]
    sketch = Sketch(*types)
    argument_types = iter(sketch.args)
    operands = [next(argument_types) if isinstance(x, str) else x for x in (left, right)]
    for function in (tl.minimum, tl.maximum):
        assert str(function.emit(sketch.build, *operands).type) == expected
    sketch.end()


def test_extrema_and_nans() -> None:
    nan = np.nan
    sketch = Sketch("tile<4xf32>", "tile<4xf32>", "tile<4xi1>", "tile<4xi1>")
    a, b, p, q = sketch.args
    build = sketch.build
    results = (
        tl.minimum.emit(build, a, b),
        tl.maximum.emit(build, a, b, propagate_nan=tl.PropagateNan.ALL),
        tl.minimum.emit(build, p, q),
        tl.maximum.emit(build, p, q),
        tl.clamp.emit(build, a, 0.0, 2.0),
        tl.clamp.emit(build, a, 0.0, 2.0, tl.PropagateNan.ALL),
    )
    x, y = np.float32([1, nan, 3, -4]), np.float32([2, 2, nan, -5])
    u, v = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    actual = sketch.run(results, x, y, u, v)
    expected = [
        [1, 2, 3, -5],
        [2, nan, nan, -4],
        [False, False, False, True],
        [False, True, True, True],
        [1, 0, 2, 0],
        [1, nan, 2, 0],
    ]
    for have, want in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(have, want)


def test_clamp_takes_integers_too() -> None:
    sketch = Sketch("tile<4xi32>")
    actual = sketch.run(tl.clamp.emit(sketch.build, *sketch.args, -1, 2), np.int32([-5, 0, 1, 9]))
    assert actual.tolist() == [-1, 0, 1, 2]


def test_what_selection_refuses() -> None:
    sketch = Sketch("f8e5m2", "f32", "ptr<f32>")
    e, f, p = sketch.args
    with pytest.raises(CompilationError, match=r"`tl.maximum` is not defined on tl.float8e5"):
        tl.maximum.emit(sketch.build, e, e)
    with pytest.raises(
        CompilationError, match=r"the propagate_nan of tl.minimum is tl.PropagateNan.NONE or"
    ):
        tl.minimum.emit(sketch.build, f, f, True)
    with pytest.raises(
        CompilationError, match=r"`tl.where` has invalid operands of type f32 and ptr<f32>"
    ):
        tl.where.emit(sketch.build, True, f, p)
    with pytest.raises(
        CompilationError, match=r"the condition of tl.where must be a tile, a scalar or a number"
    ):
        tl.where.emit(sketch.build, "x", f, f)


def test_sigmoid_and_softmax() -> None:
    x = np.float32([[0, 1, -2, 300], [5, 5, 5, 5]])
    sketch = Sketch("tile<2x4xf32>")
    (a,) = sketch.args
    build = sketch.build
    results = (
        tl.sigmoid.emit(build, a),
        tl.softmax.emit(build, a),
        tl.softmax.emit(build, a, 1),
        tl.softmax.emit(build, a, dim=-1, keep_dims=True, ieee_rounding=True),
    )
    actual = sketch.run(results, x)

    def softmax(y: Any, axis: int) -> Any:
        powers = np.exp(y.astype(np.float64) - y.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    expected = (
        1 / (1 + np.exp(-x.astype(np.float64))),
        softmax(x, 0),
        softmax(x, 1),
        softmax(x, 1),
    )
    for have, want in zip(actual, expected, strict=True):
        assert have.dtype == np.float32
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-30)


def test_operators_as_functions() -> None:
    sketch = Sketch("tile<4xu8>")
    (x,) = sketch.args
    build = sketch.build
    assert tl.add.emit(build, 1, 2) == 3
    results = (
        tl.add.emit(build, x, 1, sanitize_overflow=False),
        tl.sub.emit(build, 0, x),
        tl.mul.emit(build, x, x),
    )
    actual = sketch.run(results, np.uint8([0, 1, 16, 255]))
    assert [y.tolist() for y in actual] == [[1, 2, 17, 0], [0, 255, 240, 1], [0, 1, 0, 1]]


def test_cdiv() -> None:
    sketch = Sketch("tile<4xi32>")
    assert tl.cdiv.emit(sketch.build, 10, 4) == 3
    assert sketch.text() == []
    actual = sketch.run(tl.cdiv.emit(sketch.build, *sketch.args, 4), np.int32([0, 1, 4, 9]))
    assert actual.tolist() == [0, 1, 1, 3]


@pytest.mark.parametrize(("rows", "columns", "group"), [(4, 4, 2), (5, 3, 2), (3, 4, 4), (7, 2, 3)])
def test_swizzle2d_goes_down_the_columns_of_each_group(rows: int, columns: int, group: int) -> None:
    locations = [
        (i, j)
        for first in range(0, rows, group)
        for j in range(columns)
        for i in range(first, min(first + group, rows))
    ]
    sketch = Sketch("i32", "i32")
    sketch.end(*tl.swizzle2d.emit(sketch.build, *sketch.args, rows, columns, group))
    from tests.evaluate import evaluate

    for linear, place in enumerate(locations):
        actual = evaluate(sketch.function, np.int32(linear // columns), np.int32(linear % columns))
        assert tuple(map(int, actual)) == place
