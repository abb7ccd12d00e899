"""The PTX of each scalar type of Triton-C: types of parameters and accesses, and ptxas takes it."""

from __future__ import annotations

import re

import pytest

import tile
from tests.backends.nvptx.assembling import ARCHITECTURES, accept
from tests.conformance import scalar_types
from tests.conformance.test_triton_c import declared_types
from tile import triton_c
from tile.ir.types import (
    ALL,
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Scalar,
)

# The parameter's type in PTX: it has the size of the C type; 16-bit floats have no type of their own.
PARAMETERS = {
    I1: ".u8", I8: ".u8", U8: ".u8", I16: ".u16", U16: ".u16", I32: ".u32", U32: ".u32",
    I64: ".u64", U64: ".u64", F16: ".align 2 .b8", BF16: ".align 2 .b8", F32: ".f32", F64: ".f64",
    F8E4M3: ".u8", F8E5M2: ".u8",
}  # fmt: skip


@pytest.mark.parametrize("ty", ALL, ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_scalar_type(ty: Scalar, arch: str) -> None:
    kernel = triton_c.compile(scalar_types.text(ty)).f
    options = {"num_warps": 1}
    compiled = tile.compile(kernel.jit, declared_types(kernel), {}, options, f"nvptx:{arch}")
    ptx = compiled.artifact.stages["ptx"]
    assert isinstance(ptx, str)
    bits = ty.itemsize * 8
    assert re.search(rf"\.param {re.escape(PARAMETERS[ty])} f_param_0\b", ptx)
    assert re.search(rf"ld\.param\.\w{bits}\s[^;]*\[f_param_0\]", ptx)
    assert set(re.findall(r"ld\.global(?:\.nc)?\.[bsuf](\d+)", ptx)) == {str(bits)}
    accept(ptx, arch)
