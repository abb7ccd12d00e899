"""Addresses that differ by constants: accesses take these as offsets from one base."""

from __future__ import annotations

import re

import pytest

import tile
import tile.language as tl


@tile.jit
def copy(x, y, n, KIND: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, 4096)
    if KIND == "wide":
        row = row.to(tl.int64)
    offset = row * n + at
    if KIND == "before":
        offset = offset - 4096
    elif KIND == "chain":
        x, y = x + row * n, y + row * n
        offset = at + 1024
    elif KIND == "unsigned":
        offset = (row * n).to(tl.uint32) + at.to(tl.uint32)
    tl.store(y + offset, tl.load(x + offset))


def scaled(kind: str) -> int:
    """Return how many offsets are scaled to bytes; a thread makes 8 accesses to each array."""
    types = {"x": "*fp32:16", "y": "*fp32:16", "n": "i32:16"}
    kernel = tile.compile(copy, types, {"KIND": kind}, {"num_warps": 4}, "nvptx:sm_90a")
    text = str(kernel.asm["ptx"])
    assert text.count("ld.global") == text.count("st.global") == 8
    return len(re.findall(r"shl\.b64|mul\.wide|mad\.wide", text))


@pytest.mark.parametrize("kind", ["narrow", "wide", "before", "chain"])
def test_one_base(kind: str) -> None:
    assert scaled(kind) <= 2


def test_sums_that_wrap_are_not_split() -> None:
    assert scaled("unsigned") == 8


@tile.jit
def tiles(x, y, stride):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 128)[None, :]
    at = (tl.program_id(0) * 16 + i) * stride + tl.program_id(1) * 128 + j
    tl.store(y + at, tl.load(x + at))


def test_rows_have_a_base_each() -> None:
    """A warp has a row of 128 elements, which one access of a thread holds, and 4 rows in all."""
    types = {"x": "*fp32:16", "y": "*fp32:16", "stride": "i32:16"}
    kernel = tile.compile(tiles, types, {}, {"num_warps": 4}, "nvptx:sm_90a")
    text = str(kernel.asm["ptx"])
    assert text.count("ld.global") == 4
    assert len(re.findall(r"shl\.b64|mul\.wide|mad\.wide", text)) <= 4
