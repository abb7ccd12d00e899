"""Pictures: every element is shown with who holds it."""

from __future__ import annotations

import colorsys
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from tests.simt.layouts.layouts import distributed, held
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.draw import draw, svg
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.swizzle import swizzled

EXAMPLES = settings(max_examples=30, deadline=None)
SVG = "{http://www.w3.org/2000/svg}"


def cells(text: str) -> dict[tuple[int, int], str]:
    """The entries of a drawn table, by row and column."""
    lines = text.splitlines()[2:]
    return {
        (row, column): entry
        for row, line in enumerate(lines)
        for column, entry in enumerate(line.split()[1:])
    }


@EXAMPLES
@given(distributed([4, 8], lanes=2, warps=1, copies=False))
def test_a_drawing_names_the_holder_of_each_element(layout: LinearLayout) -> None:
    text = draw(layout)
    by_element = held(layout)
    shown = cells(text)
    assert text.startswith("warp.lane:register\n")
    assert len(shown) == 32
    for (row, column), entry in shown.items():
        match = re.fullmatch(r"(\d+)\.(\d+):(\d+)", entry)
        assert match is not None
        warp, lane, register = map(int, match.groups())
        assert by_element["dim0"][register, lane, warp] == row
        assert by_element["dim1"][register, lane, warp] == column


@EXAMPLES
@given(distributed([4, 4], lanes=2, warps=1, copies=True))
def test_a_drawing_counts_copies(layout: LinearLayout) -> None:
    copies = (1 << len(layout.columns)) // 16
    assert all(entry.endswith(f"+{copies - 1}") for entry in cells(draw(layout)).values())


def test_small_drawings() -> None:
    assert draw(blocked([4], [1], [2], [1])) == (
        "lane:register\n     0   1   2   3\n 0 0:0 1:0 0:1 1:1"
    )
    assert draw(swizzled([2, 4], 2, 1, 2)) == "offset\n   0 1 2 3\n 0 0 1 2 3\n 1 6 7 4 5"
    assert draw(LinearLayout.of({"lane": [[2]]}, [4])) == "lane\n   0 1 2 3\n 0 0 - 1 -"
    assert draw(LinearLayout.of({"lane": [], "register": []}, [1])) == (
        "lane:register\n     0\n 0 0:0"
    )


def test_more_axes_are_planes() -> None:
    assert draw(blocked([2, 1, 2], [1, 1, 1], [2, 1, 2], [1, 1, 1])).splitlines() == [
        "lane",
        "dim0 = 0",
        "   0 1",
        " 0 0 1",
        "dim0 = 1",
        "   0 1",
        " 0 2 3",
    ]


@pytest.mark.parametrize(
    ("layout", "rows", "columns"),
    [
        (blocked([16, 16], [1, 4], [8, 4], [2, 1]), 16, 16),
        (blocked([64, 64], [1, 8], [8, 4], [2, 2]), 64, 64),
        (blocked([32], [1], [32], [2]), 1, 32),
        (swizzled([8, 32], 4, 1, 8), 8, 32),
    ],
    ids=["small", "large", "copies", "shared"],
)
def test_a_picture_has_a_labeled_cell_for_each_element(
    layout: Any, rows: int, columns: int
) -> None:
    root = ElementTree.fromstring(svg(layout, element_bits=16))
    rects = root.findall(f"{SVG}rect")[1:]
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert len(rects) == rows * columns
    entries = [*cells(draw(layout)).values()]
    assert [text for text in texts if text in {*entries}][-1] == entries[-1]
    assert Counter(entries) <= Counter(texts)
    # Cells are next to one another, in the picture, and wide enough for their labels.
    corners = {(float(r.get("x", "")), float(r.get("y", ""))) for r in rects}
    assert len(corners) == rows * columns
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for rect in rects:
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= width
        assert float(rect.get("y", "")) + float(rect.get("height", "")) <= height
        assert float(rect.get("width", "")) >= 7 * max(map(len, entries))


def test_cells_of_a_lane_have_one_color_and_lanes_differ() -> None:
    layout = blocked([8, 8], [1, 2], [8, 2], [1, 2])
    root = ElementTree.fromstring(svg(layout))
    fills = [rect.get("fill") for rect in root.findall(f"{SVG}rect")[1:]]
    holders = [entry.split(":")[0] for entry in cells(draw(layout)).values()]
    colors: dict[str, set[str | None]] = {}
    for holder, fill in zip(holders, fills, strict=True):
        colors.setdefault(holder, set()).add(fill)
    assert all(len(fills) == 1 for fills in colors.values())
    assert len(set.union(*colors.values())) == 32


def test_a_conflict_shows_as_one_color_in_a_column() -> None:
    def hue(fill: str) -> int:
        red, green, blue = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return round(32 * colorsys.rgb_to_hls(red, green, blue)[0]) % 32

    def hues(layout: LinearLayout) -> set[int]:
        root = ElementTree.fromstring(svg(layout, element_bits=32))
        fills = [rect.get("fill", "") for rect in root.findall(f"{SVG}rect")[1:]]
        return {hue(fill) for fill in fills[::32]}

    assert len(hues(swizzled([8, 32], 1, 1, 1))) == 1
    assert len(hues(swizzled([8, 32], 1, 1, 8))) == 8


def test_pictures_that_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"1 to 16384 elements, and not of \[256, 128\]"):
        draw(blocked([256, 128], [1, 1], [8, 4], [1, 1]))
    with pytest.raises(LayoutError, match=r"and not of \[\]"):
        svg(LinearLayout.of({"lane": []}, []))
