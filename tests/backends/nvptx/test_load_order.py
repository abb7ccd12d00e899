"""Loads stay before instructions that ptxas expands to branches, across which it moves none."""

from __future__ import annotations

import re

import pytest

import tile
import tile.language as tl


@tile.jit
def normalize(x_ptr, mean_ptr, variance_ptr, residual_ptr, out_ptr, ROOT: tl.constexpr):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    x = tl.load(x_ptr + i).to(tl.float32)
    mean = tl.load(mean_ptr + i % 512).to(tl.float32)
    variance = tl.load(variance_ptr + i % 512, eviction_policy="evict_last").to(tl.float32)
    residual = tl.load(residual_ptr + i).to(tl.float32)
    if ROOT:
        y = (x - mean) * (1 / tl.sqrt_rn(variance + 1e-5))
    else:
        y = tl.div_rn(x - mean, variance + 1e-5)
    tl.store(out_ptr + i, y + residual)


@tile.jit
def alternate(x_ptr, y_ptr, out_ptr):
    x = tl.load(x_ptr).to(tl.float32)
    y = tl.load(y_ptr + tl.sqrt_rn(x).to(tl.int32)).to(tl.float32)
    tl.store(out_ptr, tl.sqrt_rn(y) + y)


def order(function: object, names: str, constants: dict[str, bool], instruction: str) -> str:
    """Return a letter for each load, instruction that branches, and store in the PTX."""
    types = dict.fromkeys(names.split(), "*bf16:16")
    options = {"num_warps": 4}
    kernel = tile.compile(function, types, constants, options, "nvptx:sm_90a")
    found = re.findall(rf"ld\.global|st\.global|{instruction}", str(kernel.asm["ptx"]))
    return "".join({"ld.global": "l", "st.global": "s"}.get(one, "x") for one in found)


@pytest.mark.parametrize(
    ("root", "instruction"), [(True, r"sqrt\.rn\.f32"), (False, r"div\.rn\.f32")]
)
def test_all_loads_come_first(root: bool, instruction: str) -> None:
    names = "x_ptr mean_ptr variance_ptr residual_ptr out_ptr"
    assert order(normalize, names, {"ROOT": root}, instruction) == "llll" + "x" * 8 + "s"


def test_loads_that_depend_on_such_an_instruction_follow_it() -> None:
    assert order(alternate, "x_ptr y_ptr out_ptr", {}, r"sqrt\.rn\.f32") == "lxlxs"
