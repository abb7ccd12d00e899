"""Blocked layouts, axes and vector widths, against plain arithmetic on indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simt.layouts.layouts import distributed, elements, held
from tile.simt.layouts.axes import expand_axis, permute_axes, reshape_axes, slice_axis, vector_width
from tile.simt.layouts.blocked import blocked, cover, grid_of
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.linear_layout import LinearLayout, identity1d

EXAMPLES = settings(max_examples=60, deadline=None)
GRIDS = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        *[st.lists(st.sampled_from([1, 2, 4][: 5 - rank]), min_size=rank, max_size=rank)] * 4,
        st.permutations(range(rank)),
    )
)


def digits(number: int, sizes: list[int], order: list[int]) -> list[int]:
    """The place of a number in a grid that is counted with the axis `order[0]` fastest."""
    place = [0] * len(sizes)
    for axis in order:
        number, place[axis] = divmod(number, sizes[axis])
    return place


@EXAMPLES
@given(GRIDS)
def test_blocks_in_blocks_of_a_tile_as_large_as_them(grids: Any) -> None:
    registers, lanes, warps, repeats, order = grids
    shape = [int(np.prod(sizes)) for sizes in zip(registers, lanes, warps, repeats, strict=True)]
    layout = blocked(shape, registers, lanes, warps, order)
    assert layout.is_bijective()
    assert layout.in_dims == ("register", "lane", "warp")
    coordinates = held(layout)
    inner = int(np.prod(registers))
    for register, lane, warp in np.ndindex(*[layout.in_size(n) for n in layout.in_dims]):
        repeat, own = divmod(register, inner)
        parts = (
            digits(own, registers, order),
            digits(lane, lanes, order),
            digits(warp, warps, order),
            digits(repeat, repeats, order),
        )
        for axis, (r, t, w, n) in enumerate(zip(*parts, strict=True)):
            place = r + registers[axis] * (t + lanes[axis] * (w + warps[axis] * n))
            assert coordinates[f"dim{axis}"][register, lane, warp] == place


@EXAMPLES
@given(GRIDS, st.data())
def test_a_smaller_tile_is_held_by_several_threads(grids: Any, data: Any) -> None:
    registers, lanes, warps, _, order = grids
    shape = [data.draw(st.sampled_from([1, 2, 4, 8])) for _ in registers]
    layout = blocked(shape, registers, lanes, warps, order)
    assert layout.is_surjective()
    assert layout.shape == tuple(shape)
    assert layout.in_size("lane") == np.prod(lanes)
    assert layout.in_size("warp") == np.prod(warps)
    # No thread holds an element twice.
    assert layout.free_variables()["register"] == 0
    # A thread of a whole layout that is inside the tile is where it was.
    whole = blocked([64] * len(shape), registers, lanes, warps, order)
    first = {name: whole.select_ins("lane", "warp").table()[name] for name in whole.out_dims}
    mine = layout.select_ins("lane", "warp").table()
    for axis, extent in enumerate(shape):
        assert np.array_equal(mine[f"dim{axis}"], first[f"dim{axis}"] % extent)


def test_the_last_axis_is_fastest_by_default() -> None:
    assert str(blocked([4, 4], [1, 2], [2, 2], [2, 1])) == (
        "#linear{register = [[0,1]], lane = [[0,2],[1,0]], warp = [[2,0]] -> dim0 = 4, dim1 = 4}"
    )
    assert str(blocked([4, 8], [1, 2], [2, 2], [2, 1], [0, 1])) == (
        "#linear{register = [[0,1],[0,4]], lane = [[1,0],[0,2]], warp = [[2,0]]"
        " -> dim0 = 4, dim1 = 8}"
    )


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (
            r"threads_per_warp is \[32\], which is not of the rank of shape \[4, 4\]",
            lambda: blocked([4, 4], [1, 1], [32], [1, 1]),
        ),
        (
            r"an order of 2 axes has each of \[0, 1\] once, and \[0, 0\] does not",
            lambda: blocked([4, 4], [1, 1], [8, 4], [1, 1], [0, 0]),
        ),
        (
            r"threads_per_warp is made of powers of two, and \[3, 4\] is not",
            lambda: blocked([4, 4], [1, 1], [3, 4], [1, 1]),
        ),
        (
            "the size of dim1 is a power of two, and 5 is not",
            lambda: blocked([4, 5], [1, 1], [8, 4], [1, 1]),
        ),
    ],
)
def test_grids_that_are_refused(message: str, wrong: Any) -> None:
    with pytest.raises(LayoutError, match=message):
        wrong()


def test_cover_adds_registers_in_order() -> None:
    lanes = grid_of("lane", [2, 2], [1, 0])
    assert cover(lanes, [4, 8], [1, 0]).bases("register") == ((0, 2), (0, 4), (2, 0))
    assert cover(lanes, [4, 8], [0, 1]).bases("register") == ((2, 0), (0, 2), (0, 4))
    assert cover(lanes, [1, 2], [0, 1]).bases("lane") == ((0, 1), (0, 0))


# Axes.


@EXAMPLES
@given(distributed([4, 2, 8], lanes=2, warps=1), st.integers(0, 2))
def test_a_slice_holds_the_sum_where_parts_were(parent: LinearLayout, axis: int) -> None:
    tile = np.arange(64).reshape(4, 2, 8)
    sums = tile.sum(axis=axis)
    sliced = slice_axis(parent, axis)
    assert sliced.shape == sums.shape
    others = [held(parent)[name] for i, name in enumerate(parent.out_dims) if i != axis]
    assert np.array_equal(sums.flat[elements(sliced)], sums[tuple(others)])


@EXAMPLES
@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
    st.lists(st.integers(0, 2), min_size=2, max_size=2),
    st.integers(0, 1),
)
def test_slicing_a_product_is_the_product_of_slices(x: list[int], y: list[int], axis: int) -> None:
    inner = grid_of("register", [1 << bits for bits in x], [1, 0])
    outer = grid_of("lane", [1 << bits for bits in y], [0, 1])
    assert slice_axis(inner * outer, axis) == slice_axis(inner, axis) * slice_axis(outer, axis)


@EXAMPLES
@given(distributed([4, 2, 8], lanes=2, warps=1), st.permutations(range(3)), st.integers(0, 3))
def test_permuted_reshaped_and_expanded_tiles(layout: LinearLayout, order: Any, axis: int) -> None:
    tile = np.arange(64).reshape(4, 2, 8)
    values = tile.flat[elements(layout)]
    permuted = permute_axes(layout, order)
    assert permuted.out_dims == ("dim0", "dim1", "dim2")
    assert np.array_equal(tile.transpose(order).flat[elements(permuted)], values)
    flat = reshape_axes(layout, [16, 4])
    assert np.array_equal(tile.reshape(16, 4).flat[elements(flat)], values)
    expanded = expand_axis(layout, axis)
    assert expanded.shape == np.expand_dims(tile, axis).shape
    assert np.array_equal(elements(expanded), elements(layout))
    assert slice_axis(expanded, axis) == layout


@EXAMPLES
@given(distributed([8, 8], lanes=2, warps=1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 1))
def test_vectors_are_registers_in_a_row(layout: LinearLayout, contiguity: int, axis: int) -> None:
    width = vector_width(layout, axis, contiguity)
    assert 1 <= width <= contiguity

    def runs(size: int) -> bool:
        """Return True if each aligned run of registers holds an aligned run of contiguous elements."""
        if size > layout.in_size("register"):
            return False
        coordinates = held(layout)
        for name, table in coordinates.items():
            rows = table.reshape(-1, size, *table.shape[1:])
            steps = np.arange(size) if name == f"dim{axis}" else np.zeros(size, int)
            if not np.array_equal(rows, rows[:, :1] + steps[:, None, None]):
                return False
            if name == f"dim{axis}" and np.any(rows[:, 0] % size):
                return False
        return True

    assert runs(width)
    assert width == contiguity or not runs(2 * width)


def test_a_vector_needs_registers() -> None:
    with pytest.raises(LayoutError, match=r"has inputs \['lane'\] and not register"):
        vector_width(identity1d(8, "lane", "dim0"), 0, 4)


@pytest.mark.parametrize("axis", [-1, 2])
def test_an_axis_is_within_the_rank(axis: int) -> None:
    layout = blocked([4, 4], [1, 1], [4, 4], [1, 1])
    with pytest.raises(LayoutError, match=f"axis {axis} is not within"):
        slice_axis(layout, axis)
