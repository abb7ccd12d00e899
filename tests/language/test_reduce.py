"""Reductions, scans and tl.dot: types, results and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError, TileError
from tile.ir import semantics
from tile.ir.numpy_dtypes import DTYPES
from tile.ir.types import ALL, SCALARS
from tile.language.base.builtin import MEMBERS
from tile.language.base.compile_options import default_dot_input_precision

SUMMED = {
    "i1": "i32",
    "i8": "i32",
    "i16": "i32",
    "i32": "i32",
    "i64": "i64",
    "u8": "u32",
    "u16": "u32",
    "u32": "u32",
    "u64": "u64",
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
}
EXTREME = SUMMED | {"u8": "i32", "u16": "i32", "f16": "f32", "bf16": "f32"}
INDEXED = {name: name for name in SUMMED} | {"bf16": "f32", "i1": "i32"}
SCANNED = {name: name for name in SUMMED if name != "i1"} | {"bf16": "f32"}


@pytest.mark.parametrize("name", SUMMED)
def test_the_types_of_results(name: str) -> None:
    sketch = Sketch(f"tile<4x8x{name}>")
    (x,) = sketch.args
    build = sketch.build
    assert str(tl.sum.emit(build, x, 0).type) == f"tile<8x{SUMMED[name]}>"
    assert tl.sum.emit(build, x).type == SCALARS[SUMMED[name]]
    assert tl.sum.emit(build, x, dtype=tl.float32).type is tl.float32
    cumsum = SUMMED[name] if name != "bf16" else "f32"
    assert str(tl.cumsum.emit(build, x, 1).type) == f"tile<4x8x{cumsum}>"
    for function in (tl.max, tl.min):
        assert str(function.emit(build, x, axis=-1).type) == f"tile<4x{EXTREME[name]}>"
        value, index = function.emit(build, x, 1, return_indices=True, keep_dims=True)
        assert str(value.type) == f"tile<4x1x{INDEXED[name]}>"
        assert str(index.type) == "tile<4x1xi32>"
    if name in SCANNED:
        assert str(tl.cumprod.emit(build, x, 0).type) == f"tile<4x8x{SCANNED[name]}>"
    sketch.end()


SHAPES = [(4,), (1,), (2, 4), (4, 1, 2)]
REDUCTIONS: list[tuple[Any, Any]] = [
    (tl.sum, np.sum),
    (tl.max, np.max),
    (tl.min, np.min),
    (tl.xor_sum, np.bitwise_xor.reduce),
    (tl.reduce_or, np.bitwise_or.reduce),
]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REDUCTIONS), st.sampled_from(SHAPES), st.booleans(), st.data())
def test_reductions_along_any_axis(
    function: tuple[Any, Any], shape: tuple[int, ...], keep_dims: bool, data: Any
) -> None:
    ours, theirs = function
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    x = np.array(
        data.draw(
            st.lists(st.integers(-9, 9), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        )
    )
    x = x.astype(np.int32).reshape(shape)
    sketch = Sketch(f"tile<{'x'.join(map(str, shape))}xi32>")
    actual = sketch.run(ours.emit(sketch.build, *sketch.args, axis, keep_dims=keep_dims), x)
    every = tuple(range(x.ndim)) if axis is None else axis
    np.testing.assert_array_equal(actual, theirs(x, axis=every, keepdims=keep_dims))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arguments_of_extrema(axis: int) -> None:
    x = np.float32([[3, 1, 3, 0], [2, 5, -1, 5]])
    sketch = Sketch("tile<2x4xf32>")
    (a,) = sketch.args
    build = sketch.build
    results = (tl.argmax.emit(build, a, axis), tl.argmin.emit(build, a, axis, keep_dims=True))
    most, least = sketch.run(results, x)
    np.testing.assert_array_equal(most, np.argmax(x, axis))
    np.testing.assert_array_equal(least, np.argmin(x, axis, keepdims=True))


def test_the_index_in_all_axes_counts_in_row_major_order() -> None:
    sketch = Sketch("tile<2x4xf32>")
    value, index = tl.max.emit(sketch.build, *sketch.args, return_indices=True)
    actual = sketch.run((value, index), np.float32([[0, 1, 2, 3], [7, 9, 9, 1]]))
    assert [x.tolist() for x in actual] == [9, 5]


def test_ties_may_be_left_open() -> None:
    sketch = Sketch("tile<4xi32>")
    tl.max.emit(sketch.build, *sketch.args, 0, True, False)
    tl.argmin.emit(sketch.build, *sketch.args, 0, tie_break_left=False)
    assert all("tie_break_left = false" in line for line in sketch.text())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_scans(axis: int, reverse: bool) -> None:
    x = np.arange(1, 9, dtype=np.int32).reshape(2, 4)
    sketch = Sketch("tile<2x4xi32>")
    (a,) = sketch.args
    build = sketch.build
    results = (
        tl.cumsum.emit(build, a, axis, reverse),
        tl.cumprod.emit(build, a, axis=axis, reverse=reverse),
    )
    sums, products = sketch.run(results, x)
    turn = (lambda y: np.flip(y, axis)) if reverse else (lambda y: y)
    np.testing.assert_array_equal(sums, turn(np.cumsum(turn(x), axis)))
    np.testing.assert_array_equal(products, turn(np.cumprod(turn(x), axis)))


def test_bytes_are_summed_without_overflow() -> None:
    sketch = Sketch("tile<64xu8>", "tile<4xi1>")
    build = sketch.build
    results = tuple(tl.sum.emit(build, x) for x in sketch.args)
    actual = sketch.run(results, np.full(64, 255, np.uint8), np.array([True, True, False, True]))
    assert [int(x) for x in actual] == [64 * 255, 3]


@pytest.mark.parametrize(
    ("function", "ty", "args", "message"),
    [
        (tl.sum, "f32", (), "tl.sum takes a tile, not a scalar of type f32"),
        (tl.sum, "tile<4xptr<f32>>", (), "tl.sum is not defined on tl.pointer_type(tl.float32)"),
        (
            tl.max,
            "tile<4xf8e5m2>",
            (),
            "tl.max is not defined on tl.float8e5; cast first: x.to(tl.float32)",
        ),
        (
            tl.sum,
            "tile<4x8xf32>",
            (2,),
            "invalid axis 2 of tl.sum: a tile of rank 2 has axes -2 to 1",
        ),
        (
            tl.argmax,
            "tile<4xf32>",
            (-2,),
            "invalid axis -2 of tl.argmax: a tile of rank 1 has axes -1 to 0",
        ),
        (tl.cumsum, "tile<4xf32>", (1,), "invalid axis 1 of tl.cumsum"),
        (
            tl.xor_sum,
            "tile<4xf32>",
            (),
            "tl.xor_sum combines the bits of integers, not of tile<4xf32>",
        ),
        (tl.reduce_or, "tile<4xf32>", (0,), "tl.reduce_or combines the bits of integers"),
        (tl.sum, "tile<4xf32>", (0.5,), "the axis of tl.sum must be an integer, not 0.5"),
        (
            tl.sum,
            "tile<4xf32>",
            (0, False, 3),
            "the dtype of tl.sum is a type such as tl.float32, not 3",
        ),
        (tl.cumprod, "tile<4xi1>", (0,), "scan {kind = prod} is not defined on i1"),
    ],
)
def test_what_reductions_refuse(
    function: Any, ty: str, args: tuple[Any, ...], message: str
) -> None:
    sketch = Sketch(ty)
    with pytest.raises(TileError) as caught:
        function.emit(sketch.build, *sketch.args, *args)
    assert caught.value.message.startswith(message)


DOTS = [
    ("f16", {}, "f32"),
    ("f16", {"out_dtype": tl.float16}, "f16"),
    ("bf16", {}, "f32"),
    ("f32", {"input_precision": "TF32x3"}, "f32"),
    ("f64", {}, "f64"),
    ("i8", {}, "i32"),
    ("i8", {"out_dtype": tl.int32}, "i32"),
    ("i8", {"out_dtype": tl.int8}, "i32"),
    ("f16", {"out_dtype": None}, "f32"),
    ("u8", {}, "i32"),
    ("f8e5m2", {"out_dtype": tl.float16}, "f16"),
]


@pytest.mark.parametrize(("element", "options", "expected"), DOTS)
@pytest.mark.parametrize("batch", ["", "2x"])
def test_dot(element: str, options: dict[str, Any], expected: str, batch: str) -> None:
    sketch = Sketch(f"tile<{batch}4x8x{element}>", f"tile<{batch}8x2x{element}>")
    result = tl.dot.emit(sketch.build, *sketch.args, **options)
    assert str(result.type) == f"tile<{batch}4x2x{expected}>"
    rng = np.random.default_rng(0)
    shape = (2,) * bool(batch)
    dtype = semantics.numpy_dtype(SCALARS[element])
    a = rng.integers(0, 4, (*shape, 4, 8)).astype(dtype)
    b = rng.integers(0, 4, (*shape, 8, 2)).astype(dtype)
    actual = sketch.run(result, a, b)
    np.testing.assert_array_equal(actual.astype(float), a.astype(float) @ b.astype(float))


def test_the_accumulator_decides_the_type() -> None:
    sketch = Sketch("tile<4x8xf16>", "tile<8x2xf16>", "tile<4x2xf16>")
    result = tl.dot.emit(sketch.build, *sketch.args, allow_tf32=False, max_num_imprecise_acc=16)
    assert str(result.type) == "tile<4x2xf16>"
    assert sketch.text() == ["%v = dot %a, %b, %c {max_num_imprecise_acc = 16} : tile<4x2xf16>"]


@pytest.mark.parametrize(
    ("element", "options", "limit"),
    [
        ("f8e4m3", {}, " {max_num_imprecise_acc = 1073741824}"),
        ("f8e5m2", {"max_num_imprecise_acc": 0}, ""),
        ("f8e5m2", {"max_num_imprecise_acc": 32}, " {max_num_imprecise_acc = 32}"),
        ("f16", {}, ""),
    ],
)
def test_dots_of_8_bit_floats_may_be_imprecise(
    element: str, options: dict[str, Any], limit: str
) -> None:
    sketch = Sketch(f"tile<4x8x{element}>", "tile<8x2xf8e4m3>", "tile<4x2xf32>")
    if element == "f16":
        sketch = Sketch("tile<4x8xf16>", "tile<8x2xf16>", "tile<4x2xf32>")
    tl.dot.emit(sketch.build, *sketch.args, **options)
    assert sketch.text() == [f"%v = dot %a, %b, %c{limit} : tile<4x2xf32>"]


@pytest.mark.parametrize(
    ("options", "precision"),
    [
        ({}, ""),
        ({"input_precision": "ieee"}, ""),
        ({"allow_tf32": False}, ""),
        ({"allow_tf32": True}, " {input_precision = tf32}"),
        ({"input_precision": "tf32"}, " {input_precision = tf32}"),
        ({"input_precision": "bf16x6"}, " {input_precision = bf16x6}"),
    ],
)
def test_the_precision_of_dot(options: dict[str, Any], precision: str) -> None:
    sketch = Sketch("tile<4x8xf32>", "tile<8x2xf32>", "tile<4x2xf32>")
    tl.dot.emit(sketch.build, *sketch.args, **options)
    assert sketch.text() == [f"%v = dot %a, %b, %c{precision} : tile<4x2xf32>"]


@pytest.mark.parametrize(
    ("element", "options", "precision"),
    [
        ("f32", {}, " {input_precision = tf32x3}"),
        ("f32", {"input_precision": "ieee"}, ""),
        ("f32", {"allow_tf32": False}, ""),
        ("f32", {"allow_tf32": True}, " {input_precision = tf32}"),
        ("f16", {}, ""),
    ],
)
def test_the_default_precision_of_dots(
    element: str, options: dict[str, Any], precision: str
) -> None:
    sketch = Sketch(f"tile<4x8x{element}>", f"tile<8x2x{element}>", "tile<4x2xf32>")
    with default_dot_input_precision.scope("tf32x3"):
        tl.dot.emit(sketch.build, *sketch.args, **options)
    assert sketch.text() == [f"%v = dot %a, %b, %c{precision} : tile<4x2xf32>"]


@pytest.mark.parametrize(
    ("types", "options", "message"),
    [
        (("f32", "tile<8x2xf32>"), {}, "the input of tl.dot is a tile, not f32"),
        (
            ("tile<4x8xf16>", "tile<4x2xf16>"),
            {},
            "dot takes a ...xMxK and a ...xKxN tile; [4, 8] and [4, 2]",
        ),
        (
            ("tile<4x8xf16>", "tile<8x2xbf16>"),
            {},
            "dot takes operands of one element type, not f16 and bf16",
        ),
        (("tile<4x8xi32>", "tile<8x2xi32>"), {}, "dot is not defined on i32"),
        (("tile<8xf16>", "tile<8xf16>"), {}, "dot takes two tiles of rank 2 or of rank 3"),
        (
            ("tile<4x8xf32>", "tile<8x2xf32>"),
            {"out_dtype": tl.float16},
            "tl.dot of tl.float32 gives tl.float32, not tl.float16; cast the result",
        ),
        (
            ("tile<4x8xbf16>", "tile<8x2xbf16>"),
            {"out_dtype": tl.bfloat16},
            "tl.dot of tl.bfloat16 gives tl.float32, not tl.bfloat16",
        ),
        (
            ("tile<4x8xf32>", "tile<8x2xf32>"),
            {"input_precision": "fp16"},
            'the input_precision of tl.dot is one of "ieee", "tf32"',
        ),
        (
            ("tile<4x8xf32>", "tile<8x2xf32>"),
            {"input_precision": "ieee", "allow_tf32": False},
            "tl.dot takes input_precision or allow_tf32, not both",
        ),
        (
            ("tile<4x8xf16>", "tile<8x2xf16>", "tile<4x4xf32>"),
            {},
            "dot of f16",
        ),
        (("tile<4x8xf16>", "tile<8x2xf16>"), {"acc": 0}, "the acc of tl.dot is a tile, not 0"),
    ],
)
def test_what_dot_refuses(types: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    sketch = Sketch(*types)
    with pytest.raises(TileError) as caught:
        tl.dot.emit(sketch.build, *sketch.args, **options)
    assert caught.value.message.startswith(message)
    assert not isinstance(caught.value, AssertionError)


def test_a_truth_value_is_demanded_at_compile_time() -> None:
    sketch = Sketch("tile<4xf32>", "i1")
    x, c = sketch.args
    with pytest.raises(
        CompilationError, match=r"the keep_dims of tl.sum must be known when the kernel"
    ):
        tl.sum.emit(sketch.build, x, keep_dims=c)


@pytest.mark.parametrize("ty", [ty.ir_name for ty in ALL])
def test_the_only_element_of_a_tile(ty: str) -> None:
    for shape in ("1", "1x1"):
        sketch = Sketch(f"tile<{shape}x{ty}>")
        x = np.array(-0.0 if SCALARS[ty].is_floating() else 1).astype(DTYPES[ty])
        actual = sketch.run(
            MEMBERS["item"].emit(sketch.build, *sketch.args), np.resize(x, (1,) * len(shape[::2]))
        )
        assert actual.shape == () and actual.tobytes() == x.tobytes()


def test_item_of_pointers_scalars_and_several_elements() -> None:
    item = MEMBERS["item"].emit
    sketch = Sketch("tile<1xptr<f32>>", "f32", "tile<2xf32>")
    pointers, scalar, two = sketch.args
    assert item(sketch.build, pointers).type == tl.pointer_type(tl.float32)
    assert item(sketch.build, scalar) is scalar
    assert item(sketch.build, 3).type is tl.int32
    with pytest.raises(CompilationError, match="item takes a tile of one element, not tile<2xf32>"):
        item(sketch.build, two)


def test_cumprod_in_another_type() -> None:
    sketch = Sketch("tile<4xi8>")
    product = tl.cumprod.emit(sketch.build, *sketch.args, dtype=tl.int32)
    np.testing.assert_array_equal(
        sketch.run(product, np.array([100, 3, 5, 7], np.int8)), [100, 300, 1500, 10500]
    )


def test_reduce_or_without_an_axis() -> None:
    sketch = Sketch("tile<2x4xi32>")
    actual = sketch.run(
        tl.reduce_or.emit(sketch.build, *sketch.args),
        1 << np.arange(8, dtype=np.int32).reshape(2, 4),
    )
    assert actual == 255
