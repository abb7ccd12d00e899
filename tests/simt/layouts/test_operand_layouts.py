"""Operands in shared memory are where a swizzle puts them, and moved there without bank conflicts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared, strips_of
from tile.simt.layouts.axes import permute_axes
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import shared_access
from tile.simt.layouts.swizzle import swizzled

SHAPES = [(64, 16), (64, 64), (128, 32), (64, 256), (16, 16), (256, 64)]
CASES = [
    (shape, along, extent, bits)
    for shape, along, extent, bits in itertools.product(SHAPES, (0, 1), (16, 32, 64), (8, 16, 32))
    if extent <= shape[along] and extent * bits >= 256
]


def test_vectors_are_reordered_by_the_bits_of_their_address() -> None:
    for shape, along, extent, bits in CASES:
        layout = operand_layout_in_shared(shape, bits, along, extent)
        assert layout is not None
        strips = strips_of(layout, bits)
        assert strips is not None and strips.along == along
        assert strips.row_bytes == min(128, extent * bits // 8)
        offsets = layout.invert().table()["offset"].reshape(shape)
        rows, columns = np.indices(shape)
        place = np.vectorize(strips.offset_of)(rows, columns)
        # Bits 4 to 6 of the address are changed by bits 7 to 9, as many as a row has vectors.
        wanted = place ^ (place >> 3 & strips.row_bytes - 16)
        np.testing.assert_array_equal(
            offsets * (bits // 8), wanted, f"{shape} {along} {extent} {bits}"
        )


def test_the_transposed_operand_is_an_operand() -> None:
    for shape, along, extent, bits in CASES:
        layout = operand_layout_in_shared(shape, bits, along, extent)
        assert layout is not None
        assert permute_axes(layout, (1, 0)) == operand_layout_in_shared(
            shape[::-1], bits, 1 - along, extent
        )


def test_slices_narrower_than_a_row_have_no_layout() -> None:
    assert operand_layout_in_shared((64, 64), 16, 1, 8) is None
    assert operand_layout_in_shared((4, 64), 16, 1, 64) is None


@pytest.mark.parametrize(
    "other", [swizzled([64, 64], 8, 1, 1), swizzled([64, 64], 8, 1, 4), swizzled([64, 64], 4, 1, 8)]
)
def test_other_layouts_are_no_strips(other: LinearLayout) -> None:
    assert strips_of(other, 16) is None


@pytest.mark.parametrize(("rows", "lanes"), [(64, [4, 8]), (128, [16, 2]), (64, [2, 16])])
def test_vectors_of_16_bytes_meet_no_bank_conflicts(rows: int, lanes: list[int]) -> None:
    """As copies move them, each lane 16 bytes, in rows as wide as the tile allows."""
    columns = 8 * lanes[1]
    held = blocked([rows, columns], [1, 8], lanes, [4, 1])
    layout = operand_layout_in_shared((rows, columns), 16, 1, columns)
    assert layout is not None
    access = shared_access(held, layout, 16)
    assert access.vector == 8
    assert access.conflicts(16) == 0
