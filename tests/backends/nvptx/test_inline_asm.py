"""Inline PTX of kernels is code that ptxas assembles, with elements packed into registers."""

from __future__ import annotations

import re

import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tests.conformance import ptx_floats, ptx_integers
from tests.conformance.ptx_kernels import Instruction, kernel
from tile import backends
from tile.backends.base import Options, Target
from tile.ir.parser import parse_module

FAMILIES: dict[str, list[Instruction]] = {
    **{name: list(cases) for name, cases in ptx_integers.GROUPS.items()},
    **{f"floats: {name}": list(cases) for name, cases in ptx_floats.GROUPS.items()},
}


def ptx_of(text: str, arch: str) -> str:
    backend = backends.get("nvptx")
    artifact = backend.compile(parse_module(text), Target("nvptx", arch), Options())
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    return ptx


@pytest.mark.parametrize("family", FAMILIES)
def test_what_other_backends_execute_is_ptx(family: str) -> None:
    """The instructions of the conformance tests exist on sm_90a."""
    assemble(ptx_of(kernel(FAMILIES[family]), "sm_90a"), "sm_90a")


def packs(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise(
        "not.b32 $0, $3; cvt.rn.f16x2.f32 $1, 1.0, 0.0; mov.b32 $2, $1;",
        "=&r,=r,=r,r",
        [tl.load(x + i)],
        (tl.uint8, tl.float16),
        is_pure=True,
        pack=4,
    )
    tl.store(y + i, a)
    tl.store(z + i, b)


def compiled(fn, types: dict[str, str], **constants: int) -> str:
    kernel = tile.compile(tile.jit(fn), types, constants, {"num_warps": 1}, "nvptx:sm_90a")
    ptx = kernel.asm["ptx"]
    assemble(ptx, "sm_90a")
    return ptx


def test_elements_share_registers() -> None:
    """Four bytes of a thread are one register; so are two f16."""
    types = {"x": "*u8", "y": "*u8", "z": "*fp16"}
    ptx = compiled(packs, types, N=256)  # 8 elements of each of 32 threads
    assert ptx.count("not.b32") == 2
    ptx = compiled(packs, types, N=64)  # 2, which are padded
    assert ptx.count("not.b32") == 1


def scalars(x):
    one = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, False, 1)
    same = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, False, 1)
    tl.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r", [], tl.int32, True, 1)
    tl.store(x, one + same)


def test_effects() -> None:
    """Text with effects is executed as often as the program says, other text if it is used."""
    ptx = compiled(scalars, {"x": "*i32"})
    assert ptx.count("%smid") == 2
    assert "%laneid" not in ptx


def kinds(x, h, d, b, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    half = tl.inline_asm_elementwise("cvt.rn.f16.f32 $0, $1;", "=h,f", [value], tl.float16, True, 1)
    tl.store(h + i, half)
    double = tl.inline_asm_elementwise("cvt.f64.f32 $0, $1;", "=d,r", [value], tl.float64, True, 1)
    tl.store(d + i, double)
    small = tl.inline_asm_elementwise(
        "add.s32 $0, $0, $1;", "=r,r,0", [tl.load(b + i), 3], tl.int8, True, 1
    )
    tl.store(b + i, small)
    positive = tl.inline_asm_elementwise(
        "and.pred $0, $1, $2;", "=b,b,b", [value > 0, small > 2], tl.int1, True, 1
    )
    tl.store(d + i, 1.0, mask=positive)
    place = tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l", [x + i], tl.uint64, True, 1)
    tl.store(h + i, place.to(tl.float16))


def test_registers_of_every_kind() -> None:
    """Text ends in a comment, or has quotation marks and a backslash in one."""
    compiled(kinds, {"x": "*fp32", "h": "*fp16", "d": "*fp64", "b": "*i8"}, N=32)


def comments(x):
    tl.store(x, tl.inline_asm_elementwise(
        'mov.b32 $0, $1; // "a" \\ b', "=r,r", [tl.load(x)], tl.int32, True, 1
    ))  # fmt: skip


def test_text_is_passed_unchanged() -> None:
    assert re.search(r'// "a" \\ b\n', compiled(comments, {"x": "*i32"}))
