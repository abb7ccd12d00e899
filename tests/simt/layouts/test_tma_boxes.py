"""Layouts of descriptor blocks against TMA's own description: boxes, rows, and XOR of address bits."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tile.simt.hopper.tma_boxes import MAX_BOX, block_layout, block_strips
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared

SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((64,), 32),
    ((1024,), 16),
    ((16, 8), 16),  # rows of 16 bytes
    ((64, 64), 16),
    ((64, 256), 16),
    ((512, 16), 8),
    ((4, 128), 16),  # fewer rows than the period of the swizzle: one strip each
    ((4, 64), 16),
    ((1, 512), 16),
    ((2, 4, 64), 16),
    ((1, 64, 128), 16),
    ((2, 2, 2, 32), 32),
    ((4, 512, 32), 8),  # boxes of part of an inner axis
    ((2, 2, 4, 8, 16), 64),
]


def offsets(shape: tuple[int, ...], bits: int, extents: tuple[int, ...] = ()) -> np.ndarray:
    """Return the byte of each element, as TMA writes boxes; -1 of those that it does not copy."""
    strips = block_strips(block_layout(shape, bits), bits)
    assert strips is not None
    strips = replace(strips, extents=extents)
    box, size = strips.box_dim, bits // 8
    assert max(box) <= MAX_BOX and box[-1] * size % 16 == 0
    result = np.full(shape, -1)
    for byte, start in strips.boxes():
        for number, index in enumerate(itertools.product(*map(range, box))):
            at = byte + number * size
            if strips.swizzle:
                vectors = strips.swizzle // 16  # bits 4 and up, by those from 7 on
                at ^= (at >> 7 & vectors - 1) << 4
            element = tuple(a + b for a, b in zip(start, index, strict=True))
            assert result[element] == -1
            result[element] = at
    return result


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_boxes_fill_the_layout(shape: tuple[int, ...], bits: int) -> None:
    table = block_layout(shape, bits).invert().table()["offset"].reshape(shape)
    np.testing.assert_array_equal(offsets(shape, bits), table * (bits // 8))


@pytest.mark.parametrize(
    ("shape", "extents", "copied"),
    [
        ((64, 256), (64, 144), (64, 192)),  # strips of 64 columns
        ((256, 64), (144, 64), (144, 64)),
        ((1, 256, 128), (1, 160, 128), (1, 160, 128)),
        ((64, 64), (), (64, 64)),
    ],
)
def test_a_part_of_a_block(
    shape: tuple[int, ...], extents: tuple[int, ...], copied: tuple[int, ...]
) -> None:
    """Its elements have the places of the whole block, and no others are copied."""
    part = offsets(shape, 16, extents)
    whole, inside = offsets(shape, 16), tuple(map(slice, copied))
    np.testing.assert_array_equal(part[inside], whole[inside])
    assert np.count_nonzero(part >= 0) == math.prod(copied)
    strips = block_strips(block_layout(shape, 16), 16)
    assert strips is not None
    assert replace(strips, extents=extents).bytes == 2 * math.prod(copied)


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_one_box_of_all_strips_fills_the_layout(shape: tuple[int, ...], bits: int) -> None:
    """It is of the array with the last axis divided into one of strips, in front, and one of rows."""
    strips = block_strips(block_layout(shape, bits), bits)
    assert strips is not None
    box = strips.whole_box_dim
    if strips.count == 1 or len(shape) == 5 or len(list(strips.boxes())) > strips.count:
        assert box is None
        return
    assert box is not None and max(box) <= MAX_BOX
    result = np.full(shape, -1)
    for number, (strip, *outer, column) in enumerate(itertools.product(*map(range, box))):
        at = number * bits // 8
        if strips.swizzle:
            at ^= (at >> 7 & strips.swizzle // 16 - 1) << 4
        result[(*outer, strip * strips.width + column)] = at
    np.testing.assert_array_equal(result, offsets(shape, bits))


@pytest.mark.parametrize(("shape", "bits"), SHAPES)
def test_two_parts_of_a_block_fill_the_layout(shape: tuple[int, ...], bits: int) -> None:
    """The first has the first half of the bytes, and both have boxes of the same extents."""
    strips = block_strips(block_layout(shape, bits), bits)
    assert strips is not None
    if strips.split is None:
        assert math.prod(shape[:-1]) < 16 and strips.count == 1
        return
    box_dim, middle, pairs = strips.split
    assert 2 * middle == math.prod(shape) * bits // 8 and middle % 128 == 0
    boxes = [box for pair in pairs for box in pair]
    assert sorted(boxes) == list(strips.boxes(box_dim))
    assert all((box.byte >= middle) == number % 2 for number, box in enumerate(boxes))
    assert all(later.byte - first.byte == middle for first, later in pairs)


@pytest.mark.parametrize(
    ("shape", "extents"),
    [
        ((64, 256), (64, 192)),  # three strips, of which each program loads half of the rows
        ((64, 256), (64, 100)),
        ((1, 256, 64), (1, 208, 64)),
        ((256, 128), (160, 128)),  # two strips
        ((256, 64), (200, 64)),  # the second part would not start with a period of the swizzle
    ],
)
def test_two_parts_of_a_part(shape: tuple[int, ...], extents: tuple[int, ...]) -> None:
    strips = block_strips(block_layout(shape, 16), 16)
    assert strips is not None
    part = replace(strips, extents=extents)
    if part.split is None:
        assert extents[-2] // 2 % 8
        return
    box_dim, apart, pairs = part.split
    assert sorted(box for pair in pairs for box in pair) == list(part.boxes(box_dim))
    assert all(second.byte - first.byte == apart for first, second in pairs)
    assert 2 * len(pairs) * math.prod(box_dim) * 2 == part.bytes


def test_the_number_of_boxes() -> None:
    def count(*shape: int, bits: int = 16) -> int:
        strips = block_strips(block_layout(shape, bits), bits)
        assert strips is not None
        return len(list(strips.boxes()))

    assert count(64, 256) == 4 and count(512, 16) == 2 and count(1024) == 4
    assert count(1, 128, 64) == count(4, 64, 64) == 1
    assert count(4, 512, 32, bits=8) == 8


def test_operands_of_wgmma_are_blocks() -> None:
    for extent in (16, 32, 64):
        layout = operand_layout_in_shared((64, 64), 16, 1, extent)
        assert layout is not None
        strips = block_strips(layout, 16)
        assert strips is not None and strips.swizzle == 2 * extent
        reshaped = block_strips(layout.reshape_outs((1, 4, 16, 64)), 16)
        assert reshaped is not None and reshaped.box_dim == (1, 4, 16, extent)


def test_other_layouts_are_no_blocks() -> None:
    columns = operand_layout_in_shared((64, 64), 16, 0, 64)
    assert columns is not None and block_strips(columns, 16) is None
    # Rows of 8 bytes; strips that would not start with a period of the swizzle; six axes.
    assert block_strips(block_layout((16, 4), 16), 16) is None
    few = block_layout((64, 128), 16)
    assert block_strips(few.reshape_outs((2, 1, 2, 2, 8, 128)), 16) is None
