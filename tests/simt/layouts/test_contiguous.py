"""Shared layouts for lanes that are SIMD lanes, and for machines without banks."""

from __future__ import annotations

import pytest

from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.conversion import through_shared
from tile.simt.layouts.dims import LANE, OFFSET, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import Banks, shared_access
from tile.simt.layouts.shared_layout import shared_layout
from tile.simt.layouts.swizzle import simd_layout

ROWS = blocked([64, 64], [1, 1], [1, 32], [4, 1])
COLUMNS = blocked([64, 64], [1, 1], [32, 1], [1, 4])
TILES = blocked([64, 64], [4, 2], [2, 16], [2, 2])
LAYOUTS = {"rows": ROWS, "columns": COLUMNS, "tiles": TILES}
SIMD = Banks(count=1, word_bits=64, vector_bits=8, simd_width=16)
UNBANKED = Banks(count=1, word_bits=64)


def steps(layout: LinearLayout, shared: LinearLayout) -> tuple[int, ...]:
    """Return the distances of lanes 1, 2, 4 and 8 from lane 0."""
    return shared.invert_and_compose(layout).images(LANE)[:4]


@pytest.mark.parametrize("load", LAYOUTS)
@pytest.mark.parametrize("store", LAYOUTS)
def test_adjacent_registers_access_adjacent_elements(store: str, load: str) -> None:
    src, dst = LAYOUTS[store], LAYOUTS[load]
    for shared in (
        simd_layout(src, (dst,), 16),
        shared_layout(src, (dst,), 32, SIMD),
        through_shared(src, dst, 32, SIMD).layout,
    ):
        assert shared.is_bijective()
        assert (1, 2, 4, 8) in (steps(src, shared), steps(dst, shared))


def test_the_access_of_more_instructions_comes_first() -> None:
    """An operand of a dot is read many times over, and written once."""
    factor = LinearLayout(
        (("register", (64, 128, 256, 512, 1024, 2048)), (LANE, (1, 2, 4, 8, 0)), (WARP, (16, 32))),
        ROWS.outs,
    )
    assert steps(factor, simd_layout(COLUMNS, (factor,), 16)) == (1, 2, 4, 8)
    assert steps(COLUMNS, simd_layout(COLUMNS, (factor,), 16)) != (1, 2, 4, 8)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("load", LAYOUTS)
@pytest.mark.parametrize("store", LAYOUTS)
def test_vectors_that_are_wider_than_all_banks(store: str, load: str, bits: int) -> None:
    """Without banks lanes are served one after the other, whatever they access."""
    src, dst = LAYOUTS[store], LAYOUTS[load]
    shared = shared_layout(src, (dst,), bits, UNBANKED)
    assert shared.is_bijective()
    assert through_shared(src, dst, bits, UNBANKED).layout.is_bijective()
    for layout in (src, dst):
        access = shared_access(layout, shared, bits, UNBANKED)
        every, _ = access.wavefronts_each(bits, UNBANKED)
        assert every >= 1 << len(shared.invert_and_compose(layout).images(LANE)[5:])
    assert shared.images(OFFSET)
