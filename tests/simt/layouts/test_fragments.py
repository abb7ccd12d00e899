"""Matrix fragments, against their description by groups of four lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simt.layouts.layouts import elements, held
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.mma_fragments import (
    FRAGMENTS,
    MmaShape,
    Operand,
    matrix_fragment,
    matrix_layout,
)

KNOWN = [(shape, operand) for shape, operands in FRAGMENTS.items() for operand in operands]


def test_a_fragment_holds_every_element_once() -> None:
    for shape, operand in KNOWN:
        layout = matrix_fragment(shape, operand)
        assert layout.is_bijective(), f"{operand} of {shape}"
        assert layout.shape == tuple(getattr(shape, axis) for axis in operand.value)
        assert layout.in_size("lane") == 32
        assert layout.in_size("warp") == (4 if shape.m == 64 else 1), f"{operand} of {shape}"


def place(shape: MmaShape, operand: Operand, index: Any) -> tuple[Any, Any]:
    """The row and column of element number `i` of a lane, in terms of groups of four lanes.

    A group has a row of the left operand or the accumulator, or a column of the right operand. Its
    four lanes share the other axis, each with as many adjacent elements as fit 32 bits, or a pair of the
    accumulator.
    """
    i, lane, warp = index
    group, member = lane // 4, lane % 4
    if operand is Operand.ACCUMULATOR:
        return group + 8 * (i // 2 % 2) + 16 * warp, 2 * member + i % 2 + 8 * (i // 4)
    few = max(1, 32 // shape.bits)
    if operand is Operand.RIGHT:
        return few * member + i % few + 4 * few * (i // few), group
    return group + 8 * (i // few % 2) + 16 * warp, few * member + i % few + 4 * few * (
        i // few // 2
    )


def test_fragments_cycle_through_groups_of_four_lanes() -> None:
    for shape, operand in KNOWN:
        layout = matrix_fragment(shape, operand)
        index = np.indices([layout.in_size(name) for name in ("register", "lane", "warp")])
        coordinates = held(layout)
        rows, columns = place(shape, operand, index)
        assert np.array_equal(coordinates["dim0"], rows), f"{operand} of {shape}"
        assert np.array_equal(coordinates["dim1"], columns), f"{operand} of {shape}"


@pytest.mark.parametrize("warps", [(1, 1), (4, 1), (2, 2), (1, 4)])
@pytest.mark.parametrize(
    "shape",
    [MmaShape(16, 8, 16, 16), MmaShape(8, 8, 4, 64), MmaShape(64, 32, 16, 16)],
    ids=str,
)
def test_instructions_over_a_tile_meet_all_they_multiply(shape: MmaShape, warps: Any) -> None:
    """In each warp, the operands' rows and columns are those of its accumulators."""
    m, n, k = 128, 64, 32
    total = matrix_layout([m, n], shape, Operand.ACCUMULATOR, warps)
    left = matrix_layout([m, k], shape, Operand.LEFT, warps)
    assert total.is_surjective()
    assert left.is_surjective()
    assert total.in_size("warp") == left.in_size("warp")
    operands = [(left, "dim0")]
    if Operand.RIGHT in FRAGMENTS[shape]:
        operands.append((matrix_layout([k, n], shape, Operand.RIGHT, warps), "dim1"))
    for layout, axis in operands:
        ours, theirs = held(layout)[axis], held(total)[axis]
        for warp in range(total.in_size("warp")):
            assert {*ours[..., warp].flat} == {*theirs[..., warp].flat}
        assert layout.free_variables()["register"] == 0
    assert total.is_injective() == (warps[0] * shape.m <= m and warps[1] * shape.n <= n)


def test_a_tile_takes_registers_along_k_first() -> None:
    layout = matrix_layout([32, 32], MmaShape(16, 8, 16, 16), Operand.LEFT, (1, 2))
    assert layout.bases("register") == ((0, 1), (8, 0), (0, 8), (0, 16), (16, 0))
    assert layout.bases("warp") == ((0, 0),)


@pytest.mark.parametrize("operand", [*Operand])
def test_matrices_of_a_batch_have_warps_of_their_own(operand: Operand) -> None:
    shape, extents = MmaShape(16, 8, 16, 16), {"m": 64, "n": 16, "k": 32}
    tile = [extents[axis] for axis in operand.value]
    single = matrix_layout(tile, shape, operand, (2, 1))
    batched = matrix_layout([4, *tile], shape, operand, (4, 2, 1))
    alone, places = held(single), held(batched)
    for warp in range(8):
        assert {*places["dim0"][..., warp].flat} == {warp // 2}
        for axis in (0, 1):
            one, other = alone[f"dim{axis}"], places[f"dim{axis + 1}"]
            assert np.array_equal(one[..., warp % 2], other[..., warp])


def test_every_part_of_a_tile_is_one_instruction() -> None:
    for shape, operand in KNOWN:
        part = matrix_fragment(shape, operand)
        tile = [4 * extent for extent in part.shape]
        layout = matrix_layout(tile, shape, operand, (2, 1))
        rest = layout.divide_left(part)
        assert rest is not None
        assert len(np.unique(elements(rest))) == 16


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (
            "no mma instruction is m16n8k64 of 16 bits; there are m16n8k8 of 16 bits, m16n8k16",
            lambda: matrix_fragment(MmaShape(16, 8, 64, 16), Operand.LEFT),
        ),
        (
            "there are none of that width",
            lambda: matrix_fragment(MmaShape(16, 8, 64, 4), Operand.LEFT),
        ),
        (
            "the `b` operand of m64n8k16 of 16 bits is read from shared memory",
            lambda: matrix_fragment(MmaShape(64, 8, 16, 16), Operand.RIGHT),
        ),
        (
            r"a tile of shape \[16, 8\] is smaller than the \[16, 16\] of m16n8k16",
            lambda: matrix_layout([16, 8], MmaShape(16, 8, 16, 16), Operand.LEFT, (1, 1)),
        ),
    ],
)
def test_fragments_that_are_refused(message: str, wrong: Any) -> None:
    with pytest.raises(LayoutError, match=message):
        wrong()
