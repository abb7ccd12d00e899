"""Functions that rearrange elements: sort, topk, gather, histogram, join, split, flip and cat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import TileError
from tile.ir import semantics
from tile.ir.types import ALL, FLOATS, INTEGERS, SCALARS, Scalar
from tile.language.tensor_methods import tensor_attribute

SHAPES = st.sampled_from([(8,), (1,), (2, 4), (4, 1, 8)])


def tile(shape: tuple[int, ...], element: str) -> str:
    return f"tile<{'x'.join(map(str, shape))}x{element}>" if shape else element


def numbers(shape: tuple[int, ...], ty: Scalar, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).integers(0 if not ty.signed else -50, 50, shape)
    return values.astype(semantics.numpy_dtype(ty))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.sampled_from([*INTEGERS, *FLOATS]), st.booleans(), st.data())
def test_sort_and_topk_along_any_axis(
    shape: tuple[int, ...], ty: Scalar, descending: bool, data: Any
) -> None:
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    along = -1 if axis is None else axis
    x = numbers(shape, ty, data.draw(st.integers(0, 9)))
    k = data.draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= shape[along]]))
    sketch = Sketch(tile(shape, ty.ir_name))
    (a,) = sketch.args
    ordered = tl.sort.emit(sketch.build, a, axis, descending)
    best = tl.topk.emit(sketch.build, a, k, axis, descending)
    actual, top = sketch.run((ordered, best), x)
    up = np.sort(x.astype(np.float64), along)
    down = np.flip(up, along)
    np.testing.assert_array_equal(actual.astype(np.float64), down if descending else up)
    expected = np.take(down if descending else up, range(k), along)
    np.testing.assert_array_equal(top.astype(np.float64), expected)
    assert actual.dtype == top.dtype == x.dtype


@pytest.mark.parametrize("descending", [False, True])
def test_a_bitonic_sequence_is_merged(descending: bool) -> None:
    x = np.int32([[3, 5, 9, 4], [7, 2, 0, 1]])
    sketch = Sketch("tile<2x4xi32>")
    merged = sketch.run(tl.bitonic_merge.emit(sketch.build, *sketch.args, None, descending), x)
    up = np.sort(x, -1)
    np.testing.assert_array_equal(merged, up[:, ::-1] if descending else up)


def test_sort_puts_nan_above_everything() -> None:
    x = np.float32([np.nan, 1, -np.inf, np.inf])
    sketch = Sketch("tile<4xf32>")
    (a,) = sketch.args
    up, down = tl.sort.emit(sketch.build, a), tl.topk.emit(sketch.build, a, 2)
    rising, top = sketch.run((up, down), x)
    np.testing.assert_array_equal(rising, np.float32([-np.inf, 1, np.inf, np.nan]))
    np.testing.assert_array_equal(top, np.float32([np.nan, np.inf]))


@pytest.mark.parametrize("ty", INTEGERS, ids=str)
def test_gather_takes_any_integers_as_index(ty: Scalar) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    index = np.array([[3, 0], [7, 7], [1, 2], [5, 4]])
    sketch = Sketch("tile<4x8xf32>", tile((4, 2), ty.ir_name))
    actual = sketch.run(
        tl.gather.emit(sketch.build, *sketch.args, 1), x, index.astype(semantics.numpy_dtype(ty))
    )
    np.testing.assert_array_equal(actual, np.take_along_axis(x, index, 1))


@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_scatter_is_the_inverse_of_gather(axis: int | None) -> None:
    along = -1 if axis is None else axis
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    index = np.random.default_rng(0).permuted(np.indices((4, 8))[along], axis=along)
    sketch = Sketch("tile<4x8xf32>", "tile<4x8xi64>")
    a, i = sketch.args
    moved = tl.scatter.emit(sketch.build, a, i, axis)
    back = tl.gather.emit(sketch.build, moved, i, along)
    actual, again = sketch.run((moved, back), x, index)
    np.testing.assert_array_equal(np.take_along_axis(actual, index, along), x)
    np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize("ty", [*INTEGERS, tl.int1], ids=str)
def test_ranks_order_a_tile_stably(ty: Scalar) -> None:
    bins = 2 if ty.is_bool() else 5
    x = np.random.default_rng(0).integers(0, bins, 64).astype(semantics.numpy_dtype(ty))
    sketch = Sketch(tile((64,), ty.ir_name))
    (a,) = sketch.args
    rank = tl.rank.emit(sketch.build, a, bins)
    numbers = tl.arange.emit(sketch.build, 0, 64)
    order = sketch.run(tl.scatter.emit(sketch.build, numbers, rank), x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("ty", [*ALL, "ptr<f32>"], ids=str)
def test_moves_take_every_type(ty: Any) -> None:
    sketch = Sketch(f"tile<4x2x{ty}>", f"tile<4x2x{ty}>")
    a, b = sketch.args
    build = sketch.build
    first, second = tl.split.emit(build, a)
    made = (
        tl.join.emit(build, a, b),
        tl.interleave.emit(build, a, b),
        tl.cat.emit(build, a, b, dim=1),
        tl.flip.emit(build, a, 0),
        first,
        second,
        tl.gather.emit(build, a, tl.full.emit(build, (1, 2), 2, tl.int32), 0),
    )
    kind = np.dtype(np.int64) if isinstance(ty, str) else semantics.numpy_dtype(ty)
    x, y = np.arange(8).reshape(4, 2).astype(kind), np.arange(8, 16).reshape(4, 2).astype(kind)
    joined, mixed, behind, backwards, left, right, row = sketch.run(made, x, y)
    wanted = [
        (joined, np.stack([x, y], -1)),
        (mixed, np.stack([x, y], -1).reshape(4, 4)),
        (behind, np.concatenate([x, y], 1)),
        (backwards, x[::-1]),
        (left, x[:, 0]),
        (right, x[:, 1]),
        (row, x[2:3]),
    ]
    for actual, expected in wanted:
        assert actual.dtype == kind
        np.testing.assert_array_equal(actual.astype(float), expected.astype(float))


@pytest.mark.parametrize("name", ["sort", "flip"])
def test_the_axis_that_is_not_named_is_the_last(name: str) -> None:
    x = numbers((4, 8), tl.int32)
    sketch = Sketch("tile<4x8xi32>")
    actual = sketch.run(tensor_attribute(sketch.build, sketch.args[0], name).emit(sketch.build), x)
    np.testing.assert_array_equal(actual, np.sort(x, 1) if name == "sort" else x[:, ::-1])


def test_scalars_are_joined_and_split_too() -> None:
    sketch = Sketch("i32", "i32")
    a, b = sketch.args
    both = tl.join.emit(sketch.build, a, b)
    again = tl.interleave.emit(sketch.build, a, b)
    first, second = tl.split.emit(sketch.build, both)
    assert first.type is second.type is tl.int32
    actual = sketch.run((both, again, first, second), np.int32(3), np.int32(4))
    assert [f.tolist() for f in actual] == [[3, 4], [3, 4], 3, 4]


def test_join_broadcasts_and_takes_numbers() -> None:
    sketch = Sketch("tile<4x1xf16>", "tile<2xf16>")
    a, b = sketch.args
    pairs = tl.join.emit(sketch.build, a, b)
    ones = tl.join.emit(sketch.build, 1, b)
    assert str(pairs.type) == "tile<4x2x2xf16>"
    assert str(ones.type) == "tile<2x2xf16>"
    x, y = np.float16([[1], [2], [3], [4]]), np.float16([5, 6])
    actual, with_one = sketch.run((pairs, ones), x, y)
    np.testing.assert_array_equal(actual[..., 0], np.broadcast_to(x, (4, 2)))
    np.testing.assert_array_equal(actual[..., 1], np.broadcast_to(y, (4, 2)))
    np.testing.assert_array_equal(with_one, [[1, 5], [1, 6]])


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("can_reorder", [False, True])
def test_cat_is_numpys_concatenation(dim: int, can_reorder: bool) -> None:
    x = np.arange(16, dtype=np.int32).reshape(2, 4, 2)
    sketch = Sketch("tile<2x4x2xi32>", "tile<2x4x2xi32>")
    actual = sketch.run(tl.cat.emit(sketch.build, *sketch.args, can_reorder, dim), x, x + 100)
    np.testing.assert_array_equal(actual, np.concatenate([x, x + 100], dim))


@pytest.mark.parametrize("element", ["i1", "i8", "u8", "i32", "u64"])
def test_histogram_counts_tiles_of_any_rank(element: str) -> None:
    x = np.random.default_rng(3).integers(0, 2 if element == "i1" else 20, (4, 8))
    mask = np.random.default_rng(4).random((4, 1)) < 0.6
    sketch = Sketch(f"tile<4x8x{element}>", "tile<4x1xi1>")
    a, m = sketch.args
    build = sketch.build
    every, some = tl.histogram.emit(build, a, 16), tl.histogram.emit(build, a, 16, m)
    none = tl.histogram.emit(build, a, 16, mask=False)
    source = x.astype(semantics.numpy_dtype(SCALARS[element]))
    counts, masked, nothing = sketch.run((every, some, none), source, mask)
    np.testing.assert_array_equal(counts, np.bincount(x[x < 16], minlength=16))
    selected = x[np.broadcast_to(mask, x.shape)]
    np.testing.assert_array_equal(masked, np.bincount(selected[selected < 16], minlength=16))
    np.testing.assert_array_equal(nothing, np.zeros(16, np.int32))
    assert counts.dtype == np.int32


REFUSED: list[tuple[Any, tuple[str, ...], tuple[Any, ...], str]] = [
    (tl.sort, ("f32",), (), "tl.sort takes a tile, not a scalar of type f32"),
    (tl.sort, ("tile<4xf8e5m2>",), (), "tl.sort is not defined on tl.float8e5"),
    (tl.sort, ("tile<4xptr<f32>>",), (), "tl.sort is not defined on tl.pointer_type(tl.float32)"),
    (
        tl.sort,
        ("tile<4xf32>",),
        (1,),
        "invalid axis 1 of tl.sort: a tile of rank 1 has axes -1 to 0",
    ),
    (tl.topk, ("tile<4xf32>",), (8,), "the k of tl.topk is 1 to 4 for tile<4xf32>, not 8"),
    (tl.topk, ("tile<4xf32>",), ("2",), "the k of tl.topk must be an integer, not '2'"),
    (tl.flip, ("f32",), (), "tl.flip takes a tile, not a scalar of type f32"),
    (
        tl.join,
        ("tile<4xf32>", "tile<4xi32>"),
        (),
        "tl.join takes values of one type, not tl.float32 and tl.int32; cast one of them",
    ),
    (
        tl.interleave,
        ("tile<4xf32>", "tile<8xf32>"),
        (),
        "shapes [4] and [8] cannot be broadcast together: axis 0 has extents 4 and 8, of which "
        "neither is 1",
    ),
    (
        tl.split,
        ("tile<2x1xf32>",),
        (),
        "tl.split takes a tile whose last axis has extent 2 or more, not tile<2x1xf32>; "
        "tl.reshape can make one",
    ),
    (tl.split, ("f32",), (), "tl.split takes a tile, not a scalar of type f32"),
    (
        tl.cat,
        ("tile<4xf32>", "tile<8xf32>"),
        (),
        "tl.cat takes two tiles of one type, not tile<4xf32> and tile<8xf32>",
    ),
    (tl.cat, ("tile<4xf32>", "f32"), (), "tl.cat takes a tile, not a scalar of type f32"),
    (
        tl.gather,
        ("tile<4xf32>", "tile<4xf32>"),
        (0,),
        "the index of tl.gather is a tile of integers, not tile<4xf32>",
    ),
    (tl.gather, ("tile<4xf32>", "i32"), (0,), "tl.gather takes a tile, not a scalar of type i32"),
    (
        tl.gather,
        ("tile<4x8xf32>", "tile<2x8xi32>"),
        (1,),
        "gather takes an index of another extent along axis -1 at most; [4, 8] and [2, 8] do not "
        "fit",
    ),
    (tl.histogram, ("tile<8xf32>",), (4,), "tl.histogram counts integers, not tl.float32"),
    (
        tl.histogram,
        ("tile<8xi32>",),
        (0,),
        "tile extents are positive, and 0 is not",
    ),
    (
        tl.histogram,
        ("tile<8xi32>", "tile<8xi32>"),
        (4,),
        "the mask of tl.histogram is of tl.int1, not tile<8xi32>; compare it, as in mask != 0",
    ),
]


@pytest.mark.parametrize(("function", "types", "args", "message"), REFUSED)
def test_what_is_refused(
    function: Any, types: tuple[str, ...], args: tuple[Any, ...], message: str
) -> None:
    sketch = Sketch(*types)
    first, *rest = sketch.args
    if function is tl.histogram:
        args, rest = (*args, *rest), []
    with pytest.raises(TileError) as caught:
        function.emit(sketch.build, first, *rest, *args)
    assert caught.value.message == message
