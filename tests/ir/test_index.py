"""join, split, flip, gather, histogram, sort: type rules, and semantics against plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.errors import ParseError
from tile.ir import semantics
from tile.ir.ops.indexing import SORTED
from tile.ir.parser import parse_module
from tile.ir.types import ALL, FLOATS, INTEGERS, Scalar


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    with semantics.quiet():
        yield


SHAPES = st.sampled_from([(1, 1), (3, 8), (1, 4), (2, 4, 2), (3, 1, 4), (1, 2, 4, 8)])


def elements(ty: Scalar, shape: tuple[int, ...], seed: int) -> Any:
    """Return arrays of all kinds of bits, without negative zeros."""
    dtype = semantics.numpy_dtype(ty)
    random = np.random.default_rng(seed)
    if ty.is_bool():
        return random.integers(0, 2, shape).astype(bool)
    bits = random.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    x = bits.view(dtype).reshape(shape)
    if ty.is_floating():
        x[x.astype(np.float64) == 0] = dtype.type(0.5)
        x.flat[:: max(2, x.size // 3)] = np.array(np.nan).astype(dtype)
    return x


def same(x: Any, y: Any) -> None:
    """Assert equal bits, or NaN in both."""
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    if x.dtype.kind in "biu":
        np.testing.assert_array_equal(x, y)
        return
    bits = f"u{x.itemsize}"
    equal = np.ascontiguousarray(x).view(bits) == np.ascontiguousarray(y).view(bits)
    assert (equal | (np.isnan(x) & np.isnan(y))).all()


@pytest.mark.parametrize("ty", ALL, ids=str)
@settings(max_examples=8, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 99))
def test_moves_keep_every_bit(ty: Scalar, shape: tuple[int, ...], seed: int) -> None:
    x, y = elements(ty, shape, seed), elements(ty, shape, seed + 1)
    pairs = semantics.join(x, y)
    assert pairs.shape == (*shape, 2)
    same(pairs[..., 0], x)
    same(pairs[..., 1], y)
    first, second = semantics.split(pairs)
    same(first, x)
    same(second, y)
    for axis in range(-len(shape) + 1, 0):
        backwards = semantics.flip(x, axis)
        same(backwards, np.take(x, range(shape[axis] - 1, -1, -1), axis))


def test_moves_take_axes_that_stand_for_constants() -> None:
    one, rows = np.int32([[7]]), np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(semantics.join(one, rows)[..., 0], np.full((3, 4), 7))
    np.testing.assert_array_equal(semantics.join(rows, one)[..., 0], rows)
    first, second = semantics.split(np.float32([[[5]]]))
    assert first.shape == second.shape == (1, 1)
    assert semantics.flip(one, -1) is not None
    np.testing.assert_array_equal(semantics.flip(one, -1), one)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.sampled_from([1, 2, 8]), st.sampled_from([np.int32, np.int64]), st.data())
def test_gather_takes_what_the_index_says(
    shape: tuple[int, ...], extent: int, kind: Any, data: Any
) -> None:
    axis = -data.draw(st.integers(1, len(shape) - 1))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    index_shape = list(shape)
    index_shape[axis] = extent
    index = random.integers(0, shape[axis], index_shape).astype(kind)
    x = random.standard_normal(shape)
    # Either may be the same for all programs.
    x = x[:1] if data.draw(st.booleans()) else x
    index = index[:1] if data.draw(st.booleans()) else index
    result = semantics.gather(x, index, axis)
    for place in np.ndindex(result.shape):
        source = list(place)
        source[axis] = index[(min(place[0], len(index) - 1), *place[1:])]
        assert result[place] == x[(min(place[0], len(x) - 1), *source[1:])]


def test_gather_outside_takes_the_nearest() -> None:
    x = np.float32([[1, 2, 3, 4]])
    index = np.int64([[-1, -(2**40), 4, 2**40, 3, 0, 1, 2]])
    result = semantics.gather(x, index, -1)
    np.testing.assert_array_equal(result, np.float32([[1, 1, 4, 4, 4, 1, 2, 3]]))


@pytest.mark.parametrize("ty", INTEGERS, ids=str)
@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([1, 3]), st.sampled_from([1, 8, 64]), st.sampled_from([1, 4, 256]), st.data()
)
def test_histogram_counts_what_is_inside(
    ty: Scalar, programs: int, extent: int, bins: int, data: Any
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = semantics.numpy_dtype(ty)
    x = elements(ty, (programs, extent), data.draw(st.integers(0, 99)))
    x[random.random(x.shape) < 0.7] %= dtype.type(4)
    mask = random.random((data.draw(st.sampled_from([1, 4])), extent)) < 0.7
    mask = mask if programs == 1 or len(mask) == 1 else mask[:programs]
    result = semantics.histogram(x, mask, bins)
    assert result.dtype == np.int32
    for row in range(len(result)):
        values = x[min(row, programs - 1)][mask[min(row, len(mask) - 1)]].tolist()
        assert result[row].tolist() == [values.count(number) for number in range(bins)]
    everything = semantics.histogram(x, None, bins)
    inside = sum(0 <= int(value) < bins for value in x.ravel())
    assert int(everything.sum()) == inside


@pytest.mark.parametrize("ty", SORTED, ids=str)
@settings(max_examples=20, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 99), descending=st.booleans(), data=st.data())
def test_sort_puts_nans_above_everything(
    ty: Scalar, shape: tuple[int, ...], seed: int, descending: bool, data: Any
) -> None:
    x = elements(ty, shape, seed)
    axis = -data.draw(st.integers(1, len(shape) - 1))
    count = data.draw(st.sampled_from([None, 1, shape[axis]]))
    result = semantics.sort(x, axis, descending, count)
    assert result.dtype == x.dtype
    rows = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    results = np.moveaxis(result, axis, -1).reshape(len(rows), -1)
    for row, ordered in zip(rows.tolist(), results.tolist(), strict=True):
        expected = sorted(row, key=lambda v: (v != v, v if v == v else 0), reverse=descending)
        assert list(map(repr, ordered)) == list(map(repr, expected[:count]))


@pytest.mark.parametrize("ty", FLOATS, ids=str)
def test_sorting_keeps_infinities_zeros_and_the_smallest(ty: Scalar) -> None:
    dtype = semantics.numpy_dtype(ty)
    tiny = np.array([1], f"u{dtype.itemsize}").view(dtype)[0]
    values = [np.nan, np.inf, 1.0, tiny, 0.0, -0.0, -float(tiny), -np.inf]
    x = np.array([values]).astype(dtype)
    result = semantics.sort(x, -1)[0]
    assert np.isnan(result[7])
    assert [float(result[i]) for i in (0, 1, 4, 5, 6)] == [
        -np.inf,
        -float(tiny),
        float(tiny),
        1.0,
        np.inf,
    ]
    assert sorted(map(str, result[2:4].astype(np.float64))) == ["-0.0", "0.0"]


@pytest.mark.parametrize(
    ("parameters", "line", "message"),
    [
        ("%x: f32", "%r = flip %x {axis = -1} : f32", "flip takes a tile, not f32"),
        (
            "%x: tile<4xf32>",
            "%r = flip %x {axis = 0} : tile<4xf32>",
            "axis 0 is outside a tile of rank 1; axes are counted from the right",
        ),
        (
            "%x: tile<4xf32>, %y: tile<4xi32>",
            "%r = join %x, %y : tile<4x2xf32>",
            "join takes values of one type, not tile<4xf32> and tile<4xi32>",
        ),
        ("%x: f32", "%a, %b = split %x : f32, f32", "split takes a tile, not f32"),
        (
            "%x: tile<2x4xf32>",
            "%a, %b = split %x : f32, f32",
            "split takes a tile whose last axis has extent 2, not tile<2x4xf32>",
        ),
        (
            "%x: tile<4xf32>, %i: tile<4xi16>",
            "%r = gather %x, %i {axis = -1} : tile<4xf32>",
            "gather takes a tile of i32 or i64 as index, not tile<4xi16>",
        ),
        (
            "%x: tile<4x8xf32>, %i: tile<4x8xi32>",
            "%r = gather %x, %i {axis = -3} : tile<4x8xf32>",
            "axis -3 is outside a tile of rank 2; axes are counted from the right",
        ),
        (
            "%x: tile<4x8xf32>, %i: tile<2x8xi32>",
            "%r = gather %x, %i {axis = -1} : tile<2x8xf32>",
            "gather takes an index of another extent along axis -1 at most; [4, 8] and [2, 8] do "
            "not fit",
        ),
        (
            "%x: tile<4x8xf32>, %i: tile<8xi32>",
            "%r = gather %x, %i {axis = -1} : tile<8xf32>",
            "gather takes an index of another extent along axis -1 at most; [4, 8] and [8] do not "
            "fit",
        ),
        (
            "%x: tile<8xf32>",
            "%r = histogram %x {bins = 4} : tile<4xi32>",
            "histogram takes a tile of integers of rank 1, not tile<8xf32>",
        ),
        (
            "%x: tile<2x8xi32>",
            "%r = histogram %x {bins = 4} : tile<4xi32>",
            "histogram takes a tile of integers of rank 1, not tile<2x8xi32>",
        ),
        (
            "%x: tile<8xi32>, %m: tile<4xi1>",
            "%r = histogram %x, %m {bins = 4} : tile<4xi32>",
            "histogram of tile<8xi32> takes a mask of type tile<8xi1>, not tile<4xi1>",
        ),
        (
            "%x: tile<8xi32>",
            "%r = histogram %x {bins = 0} : tile<4xi32>",
            "tile extents are positive, and 0 is not",
        ),
        (
            "%x: tile<8xf8e5m2>",
            "%r = sort %x {axis = -1} : tile<8xf8e5m2>",
            "sort is not defined on f8e5m2",
        ),
        (
            "%x: tile<8xf32>",
            "%r = sort %x {axis = -1, count = 16} : tile<16xf32>",
            "sort keeps 1 to 8 elements of an axis of extent 8, not 16",
        ),
    ],
)
def test_the_rules_refuse(parameters: str, line: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(f"func @test({parameters}) {{\n  {line}\n  return\n}}\n")
    assert caught.value.message == message
