"""Swizzled layouts of shared memory, against their description by rows and phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.shared_access import wavefronts
from tile.simt.layouts.swizzle import byte_swizzled, swizzled

POWERS = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=80, deadline=None)
@given(POWERS, POWERS, POWERS, POWERS, st.sampled_from([1, 2, 16]), st.permutations(range(3)))
def test_a_swizzle_reorders_the_vectors_of_a_row(
    vector: int, per_phase: int, max_phase: int, more: int, rows: int, order: list[int]
) -> None:
    columns = vector * max_phase * more
    shape = [0, 0, 0]
    shape[order[0]], shape[order[1]], shape[order[2]] = columns, rows, 2
    layout = swizzled(shape, vector, per_phase, max_phase, order)
    assert layout.is_bijective()
    assert layout.shape == tuple(shape)
    offset = layout.invert().table()["offset"].transpose(order[2], order[1], order[0])
    for plane, row, column in np.ndindex(offset.shape):
        place = column // vector ^ row // per_phase % max_phase
        expected = (plane * rows + row) * columns + place * vector + column % vector
        assert offset[plane, row, column] == expected


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_byte_swizzles_flip_address_bits(row_bytes: int, bits: int, order: Any) -> None:
    """In a strip of rows, bits 4 and up of the address are flipped by bits 7 and up."""
    width = row_bytes * 8 // bits
    shape = [32, 32]
    shape[order[0]] = 2 * width
    layout = byte_swizzled(shape, bits, row_bytes, order)
    offset = layout.invert().table()["offset"].transpose(order[1], order[0])
    for row, column in np.ndindex(offset.shape):
        strip, inside = divmod(column, width)
        address = ((strip * 32 + row) * width + inside) * bits // 8
        flipped = address ^ (address >> 7 & row_bytes // 16 - 1) << 4
        assert offset[row, column] * bits // 8 == flipped


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_widest_swizzle_spreads_a_column_of_vectors(bits: int) -> None:
    """Eight rows' vectors at one column take one wavefront, where plain rows take eight."""
    vector = 128 // bits
    for layout, most in (
        (byte_swizzled([8, 8 * vector], bits, 128), 1),
        (swizzled([8, 8 * vector], vector, 1, 1), 8),
    ):
        offset = layout.invert().table()["offset"]
        for column in range(0, 8 * vector, vector):
            assert wavefronts(offset[None, :, column], bits, vector).tolist() == [most]


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (
            r"a row of \[8, 16\] does not have 8 vectors of 4 elements",
            lambda: swizzled([8, 16], 4, 1, 8),
        ),
        (r"a row of \[64\] does not have 8 vectors", lambda: swizzled([64], 4, 1, 8)),
        ("max_phase is a power of two, and 3 is not", lambda: swizzled([8, 16], 4, 1, 3)),
        ("per_phase is a power of two, and 0 is not", lambda: swizzled([8, 16], 4, 0, 2)),
        ("a vector is a power of two, and 3 is not", lambda: swizzled([8, 16], 3, 1, 2)),
        ("is of 32, 64 or 128 bytes, not 256", lambda: byte_swizzled([8, 256], 8, 256)),
        (
            r"a swizzle of 128 bytes takes rows of 64 elements; \[8, 32\] has none",
            lambda: byte_swizzled([8, 32], 16, 128),
        ),
    ],
)
def test_swizzles_that_are_refused(message: str, wrong: Any) -> None:
    with pytest.raises(LayoutError, match=message):
        wrong()
