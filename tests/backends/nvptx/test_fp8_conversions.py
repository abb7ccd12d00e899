"""8-bit floats are converted two at a time, from whole 32-bit registers."""

from __future__ import annotations

import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tests.backends.nvptx.test_everything import BENCHMARKS


@tile.jit
def widened(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


@pytest.mark.parametrize("to", ["fp16", "bf16", "fp32"])
def test_a_cast_takes_two_instructions_for_four_elements(to: str) -> None:
    types = {"x_ptr": "*fp8e4nv:16", "out_ptr": f"*{to}:16"}
    ptx = tile.compile(widened, types, {"N": 2048}, target="nvptx:sm_90a").asm["ptx"]
    assert ptx.count("cvt.rn.f16x2.e4m3x2") == 2048 // 128 // 2
    assert "prmt" not in ptx
    assemble(ptx, "sm_90a")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_90"])
def test_operands_of_exact_dots_are_converted_so(arch: str) -> None:
    """As operands of wgmma by way of shared memory, and in registers for mma."""
    function, types, constants, options = BENCHMARKS["matmul fp8 128"]
    ptx = tile.compile(function, types, constants, options, f"nvptx:{arch}").asm["ptx"]
    assert "cvt.rn.f16x2.e4m3x2" in ptx
    assert "prmt" not in ptx and "shl.b16" not in ptx
