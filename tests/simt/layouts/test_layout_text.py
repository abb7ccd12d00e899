"""Layouts to text and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.simt.layouts.layouts import layouts
from tile.errors import ParseError
from tile.ir.printer import LAYOUT
from tile.ir.types import F32, Tile
from tile.ir.value_parser import parse_type
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
    ("text", "column", "message"),
    [
        ("", 0, "expected `#linear`, found `end of text`"),
        ("#linear(", 7, "expected `{`, found `\\(`"),
        ("#linear{lane [[1]] -> dim0 = 2}", 13, "expected `=`, found `\\[`"),
        ("#linear{lane = [1] -> dim0 = 2}", 16, "expected `\\[`, found `1`"),
        ("#linear{lane = [[1] [2]] -> dim0 = 4}", 20, "expected `,`, found `\\[`"),
        ("#linear{lane = [[x]] -> dim0 = 4}", 17, "expected an integer, found `x`"),
        ("#linear{3 = [] -> dim0 = 4}", 8, "expected the name of a dimension, found `3`"),
        ("#linear{lane = [] -> dim0 = x}", 28, "expected an integer, found `x`"),
        ("#linear{lane = []", 17, "expected `,`, found `end of text`"),
        ("#linear{lane = [] -> dim0 = 2} x", 31, "expected the end of the text, found `x`"),
        ("#linear{lane = [], lane = [] -> dim0 = 2}", 19, "a layout names lane once"),
    ],
)
def test_wrong_text_fails_at_its_column(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as failure:
        parse_layout(text)
    assert failure.value.loc is not None
    assert failure.value.loc.column == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#linear{lane = [[2]] -> dim0 = 2}", r"lane basis 0 is \[2\]; along dim0 are 0 to 1"),
        ("#linear{lane = [[-1]] -> dim0 = 4}", r"lane basis 0 is \[-1\]; along dim0 are 0 to 3"),
        ("#linear{lane = [[1,1]] -> dim0 = 2}", "it takes one number for each of"),
        ("#linear{lane = [] -> dim0 = 0}", "the size of dim0 is a power of two, and 0 is not"),
    ],
)
def test_text_of_what_is_no_layout(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_layout(text)


def test_a_wrong_layout_in_a_type_fails_at_its_column() -> None:
    with pytest.raises(ParseError) as failure:
        parse_type("tile<4xf32, #linear{lane : []}>")
    assert failure.value.loc is not None
    assert failure.value.loc.column == len("tile<4xf32, #linear{lane ")
