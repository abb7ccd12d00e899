"""Wavefronts, against asking the banks word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simt.layouts.machine import accesses
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.shared_access import Banks, shared_access, wavefronts
from tile.simt.layouts.swizzle import swizzled


def ask(starts: list[int], element_bits: int, vector: int, banks: Banks) -> int:
    """As many accesses as the bank with the most different words has, for each group of lanes."""
    busiest = 0
    bits = element_bits * vector
    together = banks.count * banks.word_bits // max(bits, banks.word_bits)
    for first in range(0, len(starts), together):
        words: dict[int, set[int]] = {}
        for start in starts[first : first + together]:
            for bit in range(start * element_bits, start * element_bits + bits):
                word = bit // banks.word_bits
                words.setdefault(word % banks.count, set()).add(word)
        busiest += max(map(len, words.values()))
    return busiest


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([8, 16, 32, 64]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([Banks(), Banks(16, 32, 128), Banks(32, 64, 128)]),
    st.sampled_from([8, 32, 64]),
    st.data(),
)
def test_wavefronts_are_the_accesses_of_the_busiest_bank(
    element_bits: int, vector: int, banks: Banks, lanes: int, data: Any
) -> None:
    if element_bits * vector > 128:
        vector = 1
    offsets = st.integers(0, 4095 // vector).map(lambda place: place * vector)
    starts = data.draw(st.lists(offsets, min_size=2 * lanes, max_size=2 * lanes))
    both = np.array(starts).reshape(2, lanes)
    expected = [ask(row, element_bits, vector, banks) for row in both.tolist()]
    assert wavefronts(both, element_bits, vector, banks).tolist() == expected


@pytest.mark.parametrize(
    ("element_bits", "vector", "stride", "expected"),
    [
        (32, 1, 0, 1),
        (32, 1, 1, 1),
        (32, 1, 2, 2),
        (32, 1, 32, 32),
        (32, 1, 33, 1),
        (16, 1, 1, 1),
        (8, 1, 1, 1),
        (64, 1, 1, 2),
        (32, 4, 4, 4),
        (32, 4, 8, 8),
        (32, 2, 2, 2),
        (16, 8, 64, 32),
    ],
)
def test_strides(element_bits: int, vector: int, stride: int, expected: int) -> None:
    lanes = np.arange(32) * stride
    assert wavefronts(lanes[None], element_bits, vector).tolist() == [expected]


def test_vectors_are_aligned() -> None:
    with pytest.raises(LayoutError, match="a vector of 4 elements begins at a multiple of 4"):
        wavefronts(np.array([0, 2]), 32, 4)


def test_the_access_of_rows_and_columns() -> None:
    """Columns of a plain tile conflict; a swizzle of single elements mends that."""
    rows = blocked([32, 32], [1, 4], [4, 8], [1, 1])
    columns = blocked([32, 32], [4, 1], [8, 4], [1, 1], [0, 1])
    plain, mixed = swizzled([32, 32], 1, 1, 1), swizzled([32, 32], 1, 1, 32)
    by_row = shared_access(rows, plain, 32)
    assert (by_row.vector, by_row.conflicts(32)) == (4, 0)
    by_column = shared_access(columns, plain, 32)
    assert (by_column.vector, len(by_column.registers)) == (1, 32)
    assert by_column.wavefronts(32).tolist() == [[8]] * 32
    assert by_column.conflicts(32) == 7 * 32
    swapped = shared_access(columns, mixed, 32)
    assert swapped.conflicts(32) < by_column.conflicts(32)


def test_the_wavefronts_of_an_access_are_those_of_its_addresses() -> None:
    layout = blocked([16, 64], [1, 4], [8, 4], [2, 2])
    access = shared_access(layout, swizzled([16, 64], 2, 1, 8), 16)
    assert access.vector == 2
    expected = [
        [ask(offsets[0][:, warp].tolist(), 16, 2, Banks()) for warp in range(4)]
        for _, offsets in accesses(access)
    ]
    assert access.wavefronts(16).tolist() == expected
