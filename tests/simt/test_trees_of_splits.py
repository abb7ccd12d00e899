"""Trees of splits, by which kernels fix the order of a reduction, are spread over the threads."""

from __future__ import annotations

import re

import pytest

import tile
import tile.language as tl


@tile.jit
def halves(x, rows: tl.constexpr, half: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(x, (rows, 2, half)), (0, 2, 1)))


@tile.jit
def fold(mean, count, rows: tl.constexpr, half: tl.constexpr):
    mb, ma = halves(mean, rows, half)
    cb, ca = halves(count, rows, half)
    total = ca + cb
    weight = 1.0 / total
    return ma * (ca * weight) + mb * (cb * weight), total


@tile.jit
def center(x_ptr, y_ptr, ROWS: tl.constexpr):
    r = tl.arange(0, ROWS)[:, None] * 128
    x = tl.load(x_ptr + r + tl.arange(0, 128)).to(tl.float32)
    count = tl.full((ROWS, 128), 1.0, tl.float32)
    mean, count = fold(x, count, ROWS, 64)
    mean, count = fold(mean, count, ROWS, 32)
    mean, count = fold(mean, count, ROWS, 16)
    mean, count = fold(mean, count, ROWS, 8)
    mean, count = fold(mean, count, ROWS, 4)
    mean, count = fold(mean, count, ROWS, 2)
    mean, count = fold(mean, count, ROWS, 1)
    tl.store(y_ptr + r + tl.arange(0, 128), x - mean)


def test_a_tree_is_not_computed_by_each_thread() -> None:
    """SGLang's layer norm combines means so, and all threads of a row use the last of them."""
    pytest.importorskip("llvmlite")
    types = {"x_ptr": "*bf16:16", "y_ptr": "*fp32:16"}
    kernel = tile.compile(center, types, {"ROWS": 2}, {"num_warps": 4}, "nvptx:sm_90a")
    counts = [int(count) for count in re.findall(r"frag<(\d+)x", kernel.asm["thread"])]
    assert max(counts) <= 4
