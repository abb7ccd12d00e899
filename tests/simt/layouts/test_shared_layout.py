"""Shared layouts for several loads of a tile: no bank conflicts where theory allows none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.simt.layouts.axes import permute_axes, sliced
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import fma_operand_layouts
from tile.simt.layouts.shared_access import BANKS, shared_access
from tile.simt.layouts.shared_layout import shared_layout


def conflicts(
    layout: LinearLayout,
    store: LinearLayout,
    loads: tuple[LinearLayout, ...],
    bits: int,
    most: int = 128,
) -> list[int]:
    """Those of the store, in accesses of at most so many bits, and of each load."""
    stored = shared_access(store, layout, bits, BANKS.up_to(most)).conflicts(bits)
    return [stored, *(shared_access(load, layout, bits).conflicts(bits) for load in loads)]


ROWS = blocked([64, 64], [1, 4], [2, 16], [4, 1])
COLUMNS = blocked([64, 64], [4, 1], [16, 2], [1, 4], [0, 1])
DOT = blocked([64, 64], [4, 4], [8, 4], [2, 2])
LEFT, RIGHT = (sliced(x, a, 4) for x, a in zip(fma_operand_layouts(DOT, 64), (-1, -2)))
TRANSPOSED = sliced(permute_axes(fma_operand_layouts(DOT, 64)[1], [1, 0]), -1, 4)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("store", [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_operands_read_in_several_layouts(store: LinearLayout, bits: int, count: int) -> None:
    for loads in itertools.permutations((LEFT, RIGHT, TRANSPOSED), count):
        layout = shared_layout(store, loads, bits)
        assert layout.is_bijective()
        assert conflicts(layout, store, loads, bits) == [0] * (1 + count)


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("store", [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("load", [LEFT, RIGHT, TRANSPOSED, ROWS])
def test_copies_of_short_vectors(store: LinearLayout, load: LinearLayout, vector: int) -> None:
    """A machine that copies words one by one has none for that."""
    head = store.images(REGISTER)[: vector.bit_length() - 1]
    layout = shared_layout(store, (load,), 32, head=head, exact=True)
    assert conflicts(layout, store, (load,), 32, 32 * vector) == [0, 0]
    assert layout.images(OFFSET)[: len(head)] == head


def lanes_that_walk(*columns: int) -> LinearLayout:
    """A tile of 2**10 elements of 32 bits: five bits of lanes, the rest in warps."""
    rest = [1 << bit for bit in range(10)]
    walked: list[int] = []
    for column in [*columns, *rest]:
        spanned = {0}
        for other in walked:
            spanned |= {x ^ other for x in spanned}
        if column not in spanned:
            walked.append(column)
    ins = ((REGISTER, ()), (LANE, tuple(walked[:5])), (WARP, tuple(walked[5:])))
    return LinearLayout(ins, (("dim0", 10),))


def test_where_theory_allows_none() -> None:
    """Five functions tell apart what three kinds of accesses walk, but for one sum.

    They share four directions, and differ in a, b and a + b: a function that is 1 at a and at b is
    0 at their sum, so one of the three has at least one conflict for each of its instructions.
    """
    shared, a, b = [1, 2, 4, 8], 16, 32
    store, *loads = (lanes_that_walk(*shared, x) for x in (a, b, a ^ b))
    layout = shared_layout(store, tuple(loads), 32)
    least = store.in_size(WARP)  # instructions of one access, of a word for each lane
    assert sum(conflicts(layout, store, tuple(loads), 32)) == least
    two = shared_layout(store, tuple(loads[:1]), 32)
    assert conflicts(two, store, tuple(loads[:1]), 32) == [0, 0]


@st.composite
def distributed(draw: st.DrawFn) -> LinearLayout:
    """A layout of 32 x 32 elements, in 2 to 16 registers, 32 lanes and up to 16 warps."""
    order = draw(st.permutations(range(10)))
    registers = draw(st.integers(1, 4))
    bits = [1 << bit for bit in order]
    ins = (
        (REGISTER, tuple(bits[:registers])),
        (LANE, tuple(bits[registers : registers + 5])),
        (WARP, tuple(bits[registers + 5 :])),
    )
    return LinearLayout(ins, (("dim0", 5), ("dim1", 5)))


@settings(max_examples=40, deadline=None)
@given(distributed(), distributed(), distributed(), st.sampled_from([8, 16, 32, 64]))
def test_several_loads_cost_no_more_than_the_best_for_one(
    store: LinearLayout, first: LinearLayout, second: LinearLayout, bits: int
) -> None:
    def cost(layout: LinearLayout) -> int:
        accesses = [shared_access(x, layout, bits) for x in (store, first, second)]
        return sum(int(np.sum(access.wavefronts(bits))) for access in accesses)

    for other in (first, second):
        access = shared_access(other, shared_layout(store, (store,), bits), bits)
        counted = access.wavefronts(bits)
        each, vain = access.wavefronts_each(bits)
        assert np.all(counted == each)
        assert access.conflicts(bits) == counted.size * vain
    both = shared_layout(store, (first, second), bits)
    assert both.is_bijective()
    assert cost(both) <= min(cost(shared_layout(store, (load,), bits)) for load in (first, second))
