"""Instructions of kernels that go over rows of 16-bit floats: few for each element."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble


@tile.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x))
    y = powers / tl.sum(powers)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


@tile.jit
def is_label(label_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, (at == tl.load(label_ptr)).to(tl.float32))


@tile.jit
def squares(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(y_ptr, tl.sum(x * x))


def ptx(kernel: Any, arch: str, block: int = 2048, **types: str) -> str:
    constants, options = {"BLOCK": block}, {"num_warps": 4}
    return str(tile.compile(kernel, types, constants, options, f"nvptx:{arch}").asm["ptx"])


def rows(element: str, arch: str = "sm_90a", block: int = 2048) -> str:
    types = {"x_ptr": f"*{element}:16", "y_ptr": f"*{element}:16", "columns": "i32:16"}
    return ptx(softmax, arch, block, **types)


@pytest.mark.parametrize("element", ["fp16", "bf16"])
def test_elements_are_compared_in_pairs(element: str) -> None:
    name = {"fp16": "f16x2", "bf16": "bf16x2"}[element]
    assert rows(element).count(f"max.{name}") == 7, "sixteen elements, in eight registers"


def test_elements_are_widened_where_no_instruction_compares_them() -> None:
    assert "max.f16" not in rows("fp16", "sm_75")
    assert "max.bf16" not in rows("bf16", "sm_80")


def test_halves_of_registers_become_f32_by_one_instruction_each() -> None:
    assert rows("bf16").count("cvt.f32.bf16") == 1, "the greatest element"


@pytest.mark.parametrize("block", [1024, 2048, 4096])
def test_so_do_those_of_several_loads(block: int) -> None:
    """A thread loads eight elements at a time, and widens all that it has together."""
    text = ptx(squares, "sm_90a", block, x_ptr="*bf16:16", y_ptr="*fp32:16")
    assert text.count("ld.global.v4.b32") == block // 1024
    assert "cvt.f32.bf16" not in text


def test_one_reciprocal_divides_a_row() -> None:
    text = rows("fp16", block=8192)
    assert "div.full" not in text
    assert text.count("rcp.approx") == 1


def test_indices_are_compared_with_a_label_in_32_bits() -> None:
    text = ptx(is_label, "sm_90a", label_ptr="*i64", y_ptr="*fp32:16")
    assert text.count("setp.eq.b64") + text.count("setp.ne.b64") <= 1, "does the label fit?"


@tile.jit
def less_the_mean(x_ptr, y_ptr, BLOCK: tl.constexpr, LAUNDER: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    mean = tl.sum(x.to(tl.float32)) / BLOCK
    if LAUNDER:
        x = tl.extra.cuda.launder(x, mean)
    tl.store(y_ptr + at, (x.to(tl.float32) - mean).to(y_ptr.dtype.element_ty))


@pytest.mark.parametrize("element", ["fp16", "bf16"])
def test_laundered_rows_stay_packed_across_a_barrier(element: str) -> None:
    """64 elements of a thread take 32 registers while its warps exchange their sums, not 64."""
    types = {"x_ptr": f"*{element}:16", "y_ptr": f"*{element}:16"}
    registers = {}
    for launder in (False, True):
        constants = {"BLOCK": 8192, "LAUNDER": launder}
        kernel = tile.compile(less_the_mean, types, constants, {"num_warps": 4}, "nvptx:sm_90a")
        text = kernel.asm["ptx"]
        assert text.count("xor.b32") == 32 * launder
        (used,) = re.findall(r"Used (\d+) registers", assemble(text, "sm_90a"))
        registers[launder] = int(used)
    assert registers[True] <= 64 < 72 <= registers[False]
