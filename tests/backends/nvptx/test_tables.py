"""Constant tables: where they are, and what loads from them."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble

TABLE = tl.constexpr(np.arange(200, dtype=np.float32))
LARGE = tl.constexpr(np.arange(4096, dtype=np.int16))


@tile.jit
def by_lanes(x, y):
    at = tl.arange(0, 128)
    tl.store(y + at, TABLE[tl.load(x + at)] + TABLE[tl.load(x + 128 + at)])


@tile.jit
def by_program(x, y):
    tl.store(y, TABLE[tl.load(x)])


@tile.jit
def large(x, y):
    tl.store(y, LARGE[tl.load(x).to(tl.int32)].to(tl.float32))


@pytest.mark.parametrize(
    ("kernel", "space", "element"),
    [(by_lanes, "global", "b32"), (by_program, "const", "b32"), (large, "global", "b16")],
    ids=["tile", "scalar", "large"],
)
def test_the_space_of_a_table(kernel, space: str, element: str) -> None:
    ptx = tile.compile(kernel, {"x": "*u8", "y": "*fp32"}, target="nvptx:sm_90a").asm["ptx"]
    (line,) = (line for line in ptx.splitlines() if line.startswith(f".{space} .align"))
    assert "table" in line, "equal tables of a kernel are one"
    assert f"ld.{space}" in ptx
    assemble(ptx, "sm_90a")
