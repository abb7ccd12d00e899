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


@tile.jit
def store_columns(out_ptr, n, step):
    row = tl.arange(0, 128)
    for first in range(0, n, 128):
        column = first + row
        tl.store(out_ptr + column.to(tl.int64) * step, 1.0)


def test_products_of_extended_numbers() -> None:
    """LLVM multiplies the halves of numbers if it has not seen in a block that they are extended."""
    types = {"out_ptr": "*fp32:16", "n": "i32", "step": "i32"}
    ptx = tile.compile(store_columns, types, target="nvptx:sm_90a").asm["ptx"]
    assert "mul.wide.s32" in ptx and "mul.lo.s64" not in ptx
