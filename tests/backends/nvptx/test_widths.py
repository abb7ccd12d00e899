"""Rows whose length is a multiple of 8 or 4 are accessed as wide as their elements permit."""

import re

import pytest

import tile
import tile.language as tl


@tile.jit
def copy_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    start = tl.program_id(0) * columns
    x = tl.load(x_ptr + start + column, mask=column < columns)
    tl.store(out_ptr + start + column, x, mask=column < columns)


@pytest.mark.parametrize(
    ("element", "columns", "width"),
    [
        ("fp16", 7008, "v4.b32"),
        ("fp16", 7000, "v4.b32"),
        ("fp16", 7004, "v2.b32"),
        ("fp32", 7004, "v4.b32"),
        ("fp32", 7003, "b32"),
    ],
)
def test_rows(element: str, columns: int, width: str) -> None:
    count = copy_rows.specialize({"columns": columns})["columns"]
    types = {"x_ptr": f"*{element}:16", "out_ptr": f"*{element}:16", "columns": count}
    ptx = tile.compile(copy_rows, types, {"BLOCK": 8192}, target="nvptx:sm_90a").asm["ptx"]
    widths = set(re.findall(r"ld\.global(?:\.nc)?\.(\S+)", ptx))
    assert widths == {width}, widths
