"""Layouts to text and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.simt.layouts.layouts import layouts
from tile.errors import ParseError, TileError
from tile.ir.printer import LAYOUT
from tile.ir.types import F32, Tile
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.linear_layout import LinearLayout, parse_layout


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_what_is_printed_can_be_read(layout: LinearLayout) -> None:
    text = str(layout)
    assert parse_layout(text) == layout
    assert str(parse_layout(text)) == text
    spaced = text.replace(",", " ,\n ").replace("[", "[ ").replace("=", " = ").replace("->", "\t->")
    assert parse_layout(f"  {spaced} ") == layout


@settings(max_examples=50, deadline=None)
@given(layouts())
def test_a_layout_in_a_type_ends_at_its_brace(layout: LinearLayout) -> None:
    text = f"%x : {Tile((2, 4), F32, layout)}, %y : {Tile((4,), F32, layout)}"
    assert [parse_layout(found) for found in LAYOUT.findall(text)] == [layout, layout]


@pytest.mark.parametrize(
    "text",
    ["#linear{ -> }", "#linear{ -> dim0 = 1}", "#linear{register = [], lane = [[],[]] -> }"],
)
def test_layouts_with_nothing_in_them(text: str) -> None:
    assert str(parse_layout(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has '#linear' at column 1, not the end"),
        ("#linear(", "has '{' at column 8, not '\\('"),
        ("#linear{lane [[1]] -> dim0 = 2}", "has '=' at column 14, not '\\['"),
        ("#linear{lane = [1] -> dim0 = 2}", "has '\\[' at column 17, not '1'"),
        ("#linear{lane = [[1] [2]] -> dim0 = 4}", "has ',' at column 21, not '\\['"),
        ("#linear{lane = [[1,]] -> dim0 = 4}", "has a number at column 20, not '\\]'"),
        ("#linear{lane = [[-1]] -> dim0 = 4}", "has a number at column 18, not '-'"),
        ("#linear{3 = [] -> dim0 = 4}", "has the name of a dimension at column 9, not '3'"),
        ("#linear{lane = [] -> dim0 = x}", "has a number at column 29, not 'x'"),
        ("#linear{lane = []", "has ',' at column 18, not the end"),
        ("#linear{lane = [] -> dim0 = 2} x", "has nothing more at column 32, not 'x'"),
        ("#linear{lane = [], lane = [] -> dim0 = 2}", "names lane once, not 2 times"),
    ],
)
def test_wrong_text_fails_at_its_column(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_layout(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#linear{lane = [[2]] -> dim0 = 2}", r"lane basis 0 is \[2\]; along dim0 are 0 to 1"),
        ("#linear{lane = [[1,1]] -> dim0 = 2}", "it takes one number for each of"),
        ("#linear{lane = [] -> dim0 = 0}", "the size of dim0 is a power of two, and 0 is not"),
    ],
)
def test_text_of_what_is_no_layout(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_layout(text)


def test_the_place_is_shown_under_the_text() -> None:
    with pytest.raises(TileError) as caught:
        parse_layout("#linear{lane : []}")
    assert str(caught.value).splitlines()[1:] == [
        "  note: #linear{lane : []}",
        "  note:              ^",
    ]
