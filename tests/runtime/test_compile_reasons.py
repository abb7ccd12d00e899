"""Reasons for which kernels are compiled again, on request."""

from __future__ import annotations

import numpy as np
import pytest

import tile
from tests.runtime.kernels import add


@pytest.fixture(autouse=True)
def printing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_PRINT_COMPILES", "1")


def test_what_differs_from_the_nearest_kernel_is_said(capsys) -> None:
    kernel = tile.jit(add.fn)
    x, y, out = (np.zeros(64, np.float32) for _ in range(3))
    calls = [
        ((x, y, out, 64), {"BLOCK": 32}),
        ((x, y, out, 48), {"BLOCK": 32}),  # the same kernel
        ((x, y, out, 63), {"BLOCK": 32}),
        ((x, y, out, 63), {"BLOCK": 64, "num_warps": 8}),
        ((x.astype(np.int32), y, out, 63), {"BLOCK": 64, "num_warps": 8}),
    ]
    for args, options in calls:
        kernel.warmup(*args, **options)
    with tile.backend("interp:generic"):
        kernel.warmup(x, y, out, 64, BLOCK=32)
    lines = [
        line.removeprefix("tile: compiling add for ")
        for line in capsys.readouterr().err.splitlines()
    ]
    assert lines == [
        "interp: no other one is in memory",
        "interp again: n is i32, not i32:16",
        "interp again: BLOCK is 64, not 32; num_warps is 8, not 4",
        "interp again: x_ptr is *i32:16, not *fp32:16",
        "interp:generic again: the target is interp:generic, not interp",
    ]


def test_nothing_is_said_without_request(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILE_PRINT_COMPILES")
    tile.jit(add.fn).warmup(*(np.zeros(8, np.float32) for _ in "xyz"), 8, BLOCK=8)
    assert capsys.readouterr().err == ""
