"""The rules of the LAID_OUT level: layouts of operations' operands and results."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.errors import VerificationError
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.verifier import verify
from tile.simt.layouts.axes import expand_axis, permute_axes, reshape_axes
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import (
    broadcast_operand_layout,
    check_distributed,
    joined_layout,
    reduced_layout,
    split_layout,
    spread_layout,
)

powers = st.sampled_from([1, 2, 4])


@st.composite
def layouts(draw: st.DrawFn) -> LinearLayout:
    """Blocked layouts of 8 lanes and 4 warps over tiles of rank 1 to 3."""
    rank = draw(st.integers(1, 3))
    shape = [draw(st.sampled_from([1, 2, 4, 8, 16])) for _ in range(rank)]
    order = draw(st.permutations(range(rank)))

    def grid(total: int) -> list[int]:
        sizes = [1] * rank
        while total > 1:
            sizes[draw(st.integers(0, rank - 1))] *= 2
            total //= 2
        return sizes

    size = [draw(powers) for _ in range(rank)]
    return blocked(shape, size, grid(8), grid(4), order)


@settings(max_examples=50, deadline=None)
@given(layouts())
def test_changes_of_layouts_keep_them_distributed(layout: LinearLayout) -> None:
    """Whatever an operation makes of a distributed layout is one, of the shape that it says."""
    shape = layout.shape
    check_distributed(layout, shape)
    for axis in range(len(shape)):
        rest = [*shape[:axis], *shape[axis + 1 :]]
        if rest:
            check_distributed(reduced_layout(layout, axis - len(shape)), rest)
        unit = [1 if a == axis else extent for a, extent in enumerate(shape)]
        check_distributed(broadcast_operand_layout(layout, unit), unit)
        check_distributed(expand_axis(layout, axis), [*shape[:axis], 1, *shape[axis:]])
        spread = spread_layout(expand_axis(layout, axis), [*shape[:axis], 8, *shape[axis:]])
        if spread is not None:
            check_distributed(spread, [*shape[:axis], 8, *shape[axis:]])
            unit = [*shape[:axis], 1, *shape[axis:]]
            assert broadcast_operand_layout(spread, unit) == expand_axis(layout, axis)
    transposed = list(range(len(shape)))[::-1]
    check_distributed(permute_axes(layout, transposed), [shape[axis] for axis in transposed])
    flat = [math.prod(shape)]
    check_distributed(reshape_axes(layout, flat), flat)
    pairs = joined_layout(layout)
    check_distributed(pairs, [*shape, 2])
    assert split_layout(pairs) == layout


HALF_TILES = "#linear{register = [[1]], lane = [[2],[4]], warp = [] -> dim0 = 8}"
OTHER = "#linear{register = [[4]], lane = [[1],[2]], warp = [] -> dim0 = 8}"
BARE = "#linear{lane = [[1],[2],[4]] -> dim0 = 8}"
TWICE = "#linear{register = [[0]], lane = [[1],[2],[4]], warp = [] -> dim0 = 8}"
MIXED = "#linear{register = [[1]], lane = [[1],[2],[4]], warp = [] -> dim0 = 8}"
SHORT = "#linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 4}"
LOST = "#linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 8}"
PAIRS = "#linear{register = [], lane = [[0,1],[1,0]], warp = [] -> dim0 = 2, dim1 = 2}"


@pytest.mark.parametrize(
    ("args", "line", "message"),
    [
        (
            f"%x: tile<8xf32, {HALF_TILES}>, %y: tile<8xf32, {OTHER}>",
            f"%r = add %x, %y : tile<8xf32, {HALF_TILES}>",
            "add takes tiles of one layout",
        ),
        (
            f"%x: tile<8xf32, {HALF_TILES}>",
            f"%r = neg %x : tile<8xf32, {OTHER}>",
            "neg gives a tile of layout #linear{register = \\[\\[1",
        ),
        ("", f"%r = const {{value = 1}} : tile<8xi32, {BARE}>", "is held by .register, lane, warp"),
        ("", f"%r = const {{value = 1}} : tile<8xi32, {TWICE}>", "hold copies of others"),
        ("", f"%r = const {{value = 1}} : tile<8xi32, {MIXED}>", "is not a bijection"),
        ("", f"%r = const {{value = 1}} : tile<8xi32, {LOST}>", "is not a bijection"),
        ("", f"%r = const {{value = 1}} : tile<8xi32, {SHORT}>", "has no layout of shape"),
        (
            f"%x: tile<2x2xf32, {PAIRS}>",
            "%a, %b = split %x : tile<2xf32, #linear{register = [], lane = [[1],[0]], warp = [] "
            "-> dim0 = 2}>, tile<2xf32, #linear{register = [], lane = [[1],[0]], warp = [] "
            "-> dim0 = 2}>",
            "split takes pairs that each thread holds in two registers",
        ),
        (
            f"%x: tile<8xf32, {HALF_TILES}>, %i: i32",
            f"%r = for %k = %i to %i step %i iter(%a = %x) : tile<8xf32, {OTHER}> {{\n"
            "  yield %x\n"
            "}",
            "for carries",
        ),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(args: str, line: str, message: str) -> None:
    module = parse_module(f"func @f({args}) {{\n  {line}\n  return\n}}\n")
    with pytest.raises(VerificationError, match=message) as refused:
        verify(module, Level.LAID_OUT)
    assert refused.value.loc is not None
    assert refused.value.loc.line == 2
