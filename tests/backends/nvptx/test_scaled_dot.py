"""PTX of block-scaled dots and of casts of emulated floats, taken by ptxas."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile
from tests.backends.nvptx.assembling import accept
from tests.conformance import test_dot_scaled, test_emulated_fp8
from tile.ir.types import EMULATED_FP8, Scalar


def ptx_of(function: Any, types: dict[str, str], arch: str, **constants: Any) -> str:
    compiled = tile.compile(function, types, constants, {"num_warps": 4}, f"nvptx:{arch}")
    ptx = compiled.artifact.stages["ptx"]
    assert isinstance(ptx, str)
    accept(ptx, arch)
    return ptx


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("scale", ["*u8", "*fp8e4nv"])
def test_packed_operands_are_multiplied_in_bf16(arch: str, scale: str) -> None:
    groups = 64 // (32 if scale == "*u8" else 16)
    types = {"a_ptr": "*u8", "b_ptr": "*u8", "sa_ptr": scale, "sb_ptr": scale, "c_ptr": "*fp32"}
    ptx = ptx_of(
        test_dot_scaled.multiply,
        types,
        arch,
        FORMATS=("e2m1", "e2m1"),
        SHAPES=((16, 32), (32, 32)),
        GROUPS=(groups, groups),
        PACKED=(True, True),
        FAST=False,
    )
    assert re.search(r"mma\.\S*\.f32\.bf16\.bf16", ptx)


def test_8_bit_floats_without_scales_are_multiplied_as_they_are() -> None:
    types = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e5", "sa_ptr": "*u8", "sb_ptr": "*u8"}
    ptx = ptx_of(
        test_dot_scaled.multiply,
        types | {"c_ptr": "*fp32"},
        "sm_89",
        FORMATS=("e4m3", "e5m2"),
        SHAPES=((16, 64), (64, 32)),
        GROUPS=(0, 0),
        PACKED=(True, True),
        FAST=False,
    )
    assert re.search(r"mma\.\S*\.f32\.e4m3\.e5m2", ptx)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("element", EMULATED_FP8, ids=str)
def test_casts_of_emulated_floats(element: Scalar, arch: str) -> None:
    names = {"f16_ptr": "*fp16", "bf16_ptr": "*bf16", "f32_ptr": "*fp32", "i32_ptr": "*i32"}
    pointer = f"*{element.alias}"
    ptx_of(test_emulated_fp8.narrow, names | {"out_ptr": pointer}, arch, SIZE=256)
    types = {"x_ptr": pointer, **names, "e4m3_ptr": "*fp8e4nv"}
    ptx_of(test_emulated_fp8.widen, types, arch, SIZE=256)


@pytest.mark.parametrize("form", ["e2m1", "e4m3"])
def test_a_loop_multiplies_from_shared_memory_on_hopper(form: str) -> None:
    types = {"a_ptr": "*u8:16", "sa_ptr": "*u8:16", "sb_ptr": "*u8:16", "c_ptr": "*fp32:16"}
    types |= {"b_ptr": f"{test_dot_scaled.POINTERS[form]}:16", "count": "i32"}
    width = 2 if form == "e2m1" else 1
    constants = {"K": 192, "SIZE": 64, "FORMAT": form, "WIDTH": width}
    ptx = ptx_of(test_dot_scaled.accumulate, types, "sm_90a", **constants)
    assert re.search(r"wgmma\.mma_async\S*\.f32\.bf16\.bf16", ptx)
    assert "cp.async" in ptx
