"""Warnings of code that takes more than twice the time that it could: once, at its line."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import tile
import tile.language as tl
from tests.simt.test_carry_base_pointers import TYPES, matmul
from tile.backends.nvptx.ptxas import warn_of_spills


@tile.jit
def one_dot(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b)  # the dot
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


POINTERS = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
CONSTANTS = {"BM": 128, "BN": 128, "BK": 32}


def compile_matmul(count: str, warps: int = 4) -> None:
    types = {**TYPES, **dict.fromkeys("MNK", count)}
    tile.compile(matmul, types, CONSTANTS, {"num_warps": warps}, "nvptx:sm_90a")


def compile_dot(m: int, n: int, k: int) -> None:
    tile.compile(one_dot, POINTERS, {"M": m, "N": n, "K": k}, target="nvptx:sm_90a")


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_narrow_loads_in_loops_of_dots() -> None:
    with pytest.warns(tile.PerformanceWarning, match="element by element") as caught:
        compile_matmul("i32")
    lines = {(one.filename, one.lineno) for one in caught}
    file = inspect.getsourcefile(matmul.fn)
    assert lines == {(file, line_of(matmul, f"{name} = tl.load")) for name in "ab"}


def test_an_imported_line_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for warps in (4, 8):
            compile_matmul("i32", warps)
    assert len(caught) == 2  # of `a` and of `b`


@pytest.mark.parametrize("count", ["i32:8", "i32:16"])
def test_aligned_rows_are_silent(count: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_matmul(count)


def test_dots_without_tensor_cores() -> None:
    with pytest.warns(tile.PerformanceWarning, match="dot of f16 .* FMA units") as caught:
        compile_dot(m=8, n=256, k=64)
    (one,) = caught
    assert (one.filename, one.lineno) == (__file__, line_of(one_dot, "# the dot"))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 256, 64), (8, 32, 16)])
def test_dots_with_them_and_small_ones_are_silent(m: int, n: int, k: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_dot(m, n, k)


def test_spills() -> None:
    report = "ptxas info: 520 bytes stack frame, {} bytes spill stores, 564 bytes spill loads"
    with pytest.warns(tile.PerformanceWarning, match="each thread of k stores") as caught:
        warn_of_spills(report.format(574), "k", "sm_90a")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_spills(report.format(72), "k", "sm_90a")
