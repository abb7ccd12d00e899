"""Functions of shape and creation, against NumPy."""

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
from tile.ir.types import SCALARS

X = np.arange(32, dtype=np.int32).reshape(2, 4, 4)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (tl.trans, (), X.swapaxes(1, 2)),
        (tl.trans, (2, 0, 1), X.transpose(2, 0, 1)),
        (tl.permute, (1, 2, 0), X.transpose(1, 2, 0)),
        (tl.permute, ((-1, 0, 1),), X.transpose(-1, 0, 1)),
        (tl.reshape, (8, 4), X.reshape(8, 4)),
        (tl.reshape, ((4, 8),), X.reshape(4, 8)),
        (tl.reshape, ([32],), X.reshape(32)),
        (tl.view, (8, 4), X.reshape(8, 4)),
        (tl.ravel, (), X.ravel()),
        (tl.expand_dims, (0,), X[None]),
        (tl.expand_dims, (-1,), X[..., None]),
        (tl.expand_dims, ((0, 2),), np.expand_dims(X, (0, 2))),
        (tl.expand_dims, ((-1, 0),), np.expand_dims(X, (-1, 0))),
        (tl.unsqueeze, (1,), X[:, None]),
    ],
)
def test_shapes_change_as_in_numpy(function: Any, args: tuple[Any, ...], expected: Any) -> None:
    sketch = Sketch("tile<2x4x4xi32>")
    actual = sketch.run(function.emit(sketch.build, *sketch.args, *args), X)
    np.testing.assert_array_equal(actual, expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 4]), max_size=3), st.data())
def test_new_axes_come_where_numpy_puts_them(shape: list[int], data: Any) -> None:
    count = data.draw(st.integers(1, 3))
    rank = len(shape) + count
    axes = data.draw(
        st.lists(st.integers(0, rank - 1), min_size=count, max_size=count, unique=True)
    )
    signed = tuple(a - rank if data.draw(st.booleans()) else a for a in axes)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    sketch = Sketch(f"tile<{'x'.join(map(str, shape))}xi32>" if shape else "i32")
    actual = sketch.run(tl.expand_dims.emit(sketch.build, *sketch.args, signed), x)
    np.testing.assert_array_equal(actual, np.expand_dims(x, signed))


def test_squeeze_takes_an_axis_away() -> None:
    sketch = Sketch("tile<4x1x2xi32>")
    assert tl.squeeze.emit(sketch.build, *sketch.args, 1).shape == (4, 2)
    assert tl.squeeze.emit(sketch.build, *sketch.args, -2).shape == (4, 2)


def test_broadcasts() -> None:
    sketch = Sketch("tile<4x1xf32>", "tile<8xi32>", "f32")
    a, b, c = sketch.args
    x, y = tl.broadcast.emit(sketch.build, a, b)
    assert (str(x.type), str(y.type)) == ("tile<4x8xf32>", "tile<4x8xi32>")
    assert tl.broadcast_to.emit(sketch.build, a, 4, 16).shape == (4, 16)
    assert tl.broadcast_to.emit(sketch.build, c, (2, 2)).shape == (2, 2)
    assert str(tl.broadcast_to.emit(sketch.build, 1, [2]).type) == "tile<2xi32>"
    assert tl.reshape.emit(sketch.build, c, 1, 1).shape == (1, 1)
    assert tl.reshape.emit(sketch.build, b, 8) is b


REFUSED: list[tuple[Any, str, tuple[Any, ...], str]] = [
    (tl.trans, "tile<4xf32>", (), "tl.trans exchanges the last two axes, and tile<4xf32> has 1"),
    (tl.trans, "f32", (), "tl.trans takes a tile, not a scalar of type f32"),
    (
        tl.permute,
        "tile<4x8xf32>",
        (0, 0),
        "the order of tl.permute is (0, 0); for tile<4x8xf32> it is a",
    ),
    (tl.permute, "tile<4x8xf32>", (0,), "the order of tl.permute is (0,)"),
    (tl.reshape, "tile<4x8xf32>", (16,), "a tile of shape [4, 8] has 32 elements and [16] has 16"),
    (tl.reshape, "tile<1xf32>", ((),), "tl.reshape gives a tile of at least one axis"),
    (
        tl.reshape,
        "tile<8xf32>",
        (2.0, 4),
        "an extent in the shape of tl.reshape must be an integer, not 2.0",
    ),
    (
        tl.expand_dims,
        "tile<8xf32>",
        (2,),
        "invalid axis 2 of tl.expand_dims: a tile of rank 2 has axes -2 to 1",
    ),
    (tl.expand_dims, "tile<8xf32>", ((0, -3),), "tl.expand_dims was given one axis twice: [0, 0]"),
    (
        tl.squeeze,
        "tile<4x8xf32>",
        (0,),
        "tl.squeeze removes an axis of extent 1; axis 0 of tile<4x8xf32>",
    ),
    (tl.squeeze, "tile<1xf32>", (0,), "tl.squeeze gives a tile of at least one axis"),
    (
        tl.broadcast_to,
        "tile<8xf32>",
        (4, 8),
        "tl.broadcast_to keeps the number of axes: [8] has 1 and [4, 8]",
    ),
    (
        tl.broadcast_to,
        "tile<8xf32>",
        (16,),
        "a tile of shape [8] cannot be broadcast to shape [16]",
    ),
    (
        tl.broadcast_to,
        "f32",
        (0,),
        "tile extents are positive, and 0 is not",
    ),
]


PADDED: list[tuple[Any, list[str], tuple[Any, ...], str]] = [
    (tl.reshape, ["tile<3x100xf32>"], (300,), "tile<3x100xf32> has an extent of 100"),
    (tl.reshape, ["tile<96xf32>"], (32, 3), "tile<32x3xf32> has an extent of 3"),
    (tl.ravel, ["tile<3x100xf32>"], (), "a reshape from tile<3x100xf32> to tile<300xf32> takes"),
    (tl.cat, ["tile<100xf32>"] * 2, (), "tile<2x100xf32> has an extent of 100"),
    (tl.histogram, ["tile<3x100xi32>"], (8,), "tile<3x100xi32> has an extent of 100"),
    (tl.split, ["tile<4x6xf32>"], (), "whose extent is a power of two, and tile<4x6xf32> has"),
]


@pytest.mark.parametrize(("function", "types", "args", "message"), PADDED)
def test_padding_between_elements_is_refused(
    function: Any, types: list[str], args: tuple[Any, ...], message: str
) -> None:
    """With the text to write instead."""
    sketch = Sketch(*types)
    with pytest.raises(TileError) as caught:
        function.emit(sketch.build, *sketch.args, *args)
    assert message in caught.value.message
    *others, last = caught.value.notes or [""]
    assert function is tl.split or "tl.where(at < " in last
    assert function is not tl.reshape or "an index for each axis" in others[0]


@pytest.mark.parametrize(("function", "ty", "args", "message"), REFUSED)
def test_what_shapes_refuse(function: Any, ty: str, args: tuple[Any, ...], message: str) -> None:
    sketch = Sketch(ty)
    with pytest.raises(TileError) as caught:
        function.emit(sketch.build, *sketch.args, *args)
    assert caught.value.message.startswith(message)


def test_creation() -> None:
    sketch = Sketch("f32", "tile<4x2xbf16>")
    n, like = sketch.args
    build = sketch.build
    results = (
        tl.arange.emit(build, 2, 6),
        tl.full.emit(build, (2, 2), 3, tl.int8),
        tl.full.emit(build, [4], n, tl.float16),
        tl.full.emit(build, (), 1, tl.float32),
        tl.full.emit(build, 2, 255, tl.uint8),
        tl.zeros.emit(build, (4,), dtype=tl.int1),
        tl.zeros_like.emit(build, like),
        tl.to_tensor.emit(build, 2.5),
    )
    assert [str(r.type) for r in results] == [
        "tile<4xi32>",
        "tile<2x2xi8>",
        "tile<4xf16>",
        "f32",
        "tile<2xu8>",
        "tile<4xi1>",
        "tile<4x2xbf16>",
        "f32",
    ]
    zeros = np.zeros((4, 2), semantics.numpy_dtype(SCALARS["bf16"]))
    actual = sketch.run(results, np.float32(0.1), zeros)
    assert [x.tolist() for x in actual[:6]] == [
        [2, 3, 4, 5],
        [[3, 3], [3, 3]],
        [float(np.float16(0.1))] * 4,
        1.0,
        [255, 255],
        [False] * 4,
    ]


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (tl.arange, (4, 4), "arange counts up: its end, 4, is not above its start, 4"),
        (tl.arange, (0, 4.0), "the end of tl.arange must be an integer, not 4.0"),
        (tl.arange, (0, True), "the end of tl.arange must be an integer, not True"),
        (tl.zeros, ((-4,), tl.float32), "tile extents are positive, and -4 is not"),
        (
            tl.zeros,
            ((4,), "float32"),
            "the dtype of tl.zeros is a type such as tl.float32, not 'float32' (str)",
        ),
        (
            tl.zeros,
            ((4,), float),
            "the dtype of tl.zeros is a type such as tl.float32, not <class 'float'>",
        ),
        (
            tl.full,
            ((2048, 1024), 0, tl.int8),
            "a tile of shape [2048, 1024] has 2097152 elements",
        ),
        (tl.program_id, (3,), "the axis of tl.program_id is 0, 1 or 2, not 3"),
        (tl.num_programs, (-1,), "the axis of tl.num_programs is 0, 1 or 2, not -1"),
    ],
)
def test_what_creation_refuses(function: Any, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TileError) as caught:
        function.emit(Sketch().build, *args)
    assert caught.value.message.startswith(message)


def test_a_shape_must_be_constant_at_compile_time() -> None:
    sketch = Sketch("i32", "tile<4xf32>")
    n, x = sketch.args
    expected = (
        "an extent in the shape of tl.zeros must be known when the kernel is compiled, and "
        "this is a value "
        "of type i32 that is known only when it runs; make it a parameter annotated tl.constexpr"
    )
    with pytest.raises(CompilationError) as caught:
        tl.zeros.emit(sketch.build, (4, n), tl.float32)
    assert caught.value.message == expected
    with pytest.raises(CompilationError, match=r"the end of tl.arange must be known"):
        tl.arange.emit(sketch.build, 0, n)
    with pytest.raises(
        CompilationError, match=r"the value of tl.full is a scalar, not tile<4xf32>"
    ):
        tl.full.emit(sketch.build, (4,), x, tl.float32)
    four = tl.to_tensor.emit(sketch.build, 4)
    assert tl.zeros.emit(sketch.build, (four, tl.constexpr(2)), tl.int8).shape == (4, 2)


def test_program_ids() -> None:
    sketch = Sketch()
    assert tl.program_id.emit(sketch.build, axis=1).type is tl.int32
    assert tl.num_programs.emit(sketch.build, 2).type is tl.int32
    assert sketch.text() == [
        "%v = program_id {axis = 1} : i32",
        "%v_1 = num_programs {axis = 2} : i32",
    ]


@pytest.mark.parametrize(
    ("source", "to", "options", "operation"),
    [
        ("f32", tl.float16, {}, "cast %a {to = f16} : f16"),
        ("f32", tl.float8e5, {"fp_downcast_rounding": "rtne"}, "cast %a {to = f8e5m2} : f8e5m2"),
        (
            "f32",
            tl.bfloat16,
            {"fp_downcast_rounding": "rtz"},
            "cast %a {to = bf16, rounding = rtz} : bf16",
        ),
        ("f32", tl.int32, {"bitcast": True}, "bitcast %a {to = i32} : i32"),
        ("i32", tl.uint32, {"bitcast": True}, "bitcast %a {to = u32} : u32"),
        ("i64", tl.pointer_type(tl.float32), {}, "bitcast %a {to = ptr<f32>} : ptr<f32>"),
        ("ptr<f32>", tl.uint64, {}, "bitcast %a {to = u64} : u64"),
        (
            "ptr<f32>",
            tl.pointer_type(tl.int8),
            {"bitcast": True},
            "bitcast %a {to = ptr<i8>} : ptr<i8>",
        ),
        ("i32", tl.int1, {}, "cast %a {to = i1} : i1"),
    ],
)
def test_casts(source: str, to: Any, options: dict[str, Any], operation: str) -> None:
    sketch = Sketch(source)
    tl.cast.emit(sketch.build, *sketch.args, to, **options)
    assert sketch.text() == [f"%v = {operation}"]


def test_a_cast_to_the_same_type_is_nothing() -> None:
    sketch = Sketch("tile<4xf32>")
    for options in ({}, {"bitcast": True}):
        assert tl.cast.emit(sketch.build, *sketch.args, tl.float32, **options) is sketch.args[0]


def test_a_pointer_is_true_unless_it_is_null() -> None:
    sketch = Sketch("tile<2xptr<f32>>")
    result = tl.cast.emit(sketch.build, *sketch.args, tl.int1)
    assert sketch.run(result, np.int64([0, 16])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("source", "to", "options", "message"),
    [
        (
            "f32",
            tl.int16,
            {"bitcast": True},
            "a bitcast needs types of equal width: tl.float32 has 32 bits and tl.int16 has",
        ),
        (
            "ptr<f32>",
            tl.int32,
            {},
            "tl.pointer_type(tl.float32) does not convert to tl.int32; a pointer",
        ),
        ("f32", tl.pi32_t, {}, "tl.float32 does not convert to tl.pointer_type(tl.int32)"),
        (
            "f32",
            tl.float16,
            {"fp_downcast_rounding": "up"},
            'fp_downcast_rounding is "rtne" or "rtz", not \'up\'',
        ),
        (
            "f16",
            tl.float32,
            {"fp_downcast_rounding": "rtz"},
            "fp_downcast_rounding is for casts to a narrower float, not for tl.float16 "
            "to tl.float32",
        ),
        (
            "i32",
            tl.int8,
            {"fp_downcast_rounding": "rtz"},
            "fp_downcast_rounding is for casts to a narrower",
        ),
        ("f32", 3, {}, "the dtype of tl.cast is a type such as tl.float32, not 3"),
    ],
)
def test_casts_that_are_refused(
    source: str, to: Any, options: dict[str, Any], message: str
) -> None:
    sketch = Sketch(source)
    with pytest.raises(CompilationError) as caught:
        tl.cast.emit(sketch.build, *sketch.args, to, **options)
    assert caught.value.message.startswith(message)
