"""`tl.inline_asm_elementwise`: its IR, and errors at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.frontend.building import refusal, text_of, underlined
from tile.errors import CompilationError
from tile.ir.types import F32, I32, Pointer

PTR = Pointer(I32)


def names_and_types(x):
    text: tl.constexpr = "popc.b32 $0, $1;"
    tile = tl.inline_asm_elementwise(
        asm=text, constraints="=r,r", args=[tl.load(x), ], dtype=(tl.uint32,), is_pure=False, pack=1
    )  # fmt: skip
    tl.store(x, tile[0])


def test_a_tuple_of_types_gives_a_tuple() -> None:
    text = text_of(names_and_types, PTR)
    assert 'constraints = "=r,r", volatile = true, to = (u32)} : u32' in text


@tile.jit
def one(x):
    return x + 1


@tile.jit
def two(x):
    return x, x


GOOD: dict[str, Any] = {
    "asm": "popc.b32 $0, $1;",
    "constraints": "=r,r",
    "dtype": tl.int32,
    "pack": 1,
    "reference": None,
}


def kernel(
    x,
    asm: tl.constexpr,
    constraints: tl.constexpr,
    dtype: tl.constexpr,
    pack: tl.constexpr,
    reference: tl.constexpr,
):
    y = tl.load(x)
    tl.inline_asm_elementwise(asm, constraints, [y], dtype, True, pack, reference=reference)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"asm": 3}, "the asm of tl.inline_asm_elementwise is a text, not 3"),
        ({"constraints": None}, "the constraints of tl.inline_asm_elementwise is a text, not None"),
        ({"constraints": "=r"}, "the constraints `=r` have 0 inputs"),
        ({"dtype": ()}, "the dtype of tl.inline_asm_elementwise has at least one type"),
        ({"pack": 3}, "a power of two, not 3"),
        ({"asm": "mov.u32 $0, $7;"}, "`$7` in the asm names no register"),
        ({"reference": 3}, "the reference of tl.inline_asm_elementwise is a @tile.jit function"),
        ({"reference": two}, "`two`, the reference of tl.inline_asm_elementwise, returns"),
        ({"reference": one, "dtype": (tl.int32, tl.int32), "constraints": "=r,=r,r"}, "`one`"),
    ],
)
def test_errors(arguments: dict[str, Any], message: str) -> None:
    error = refusal(kernel, PTR, **{**GOOD, **arguments})
    assert message in error.message
    assert underlined(error).startswith("tl.inline_asm_elementwise(")


def not_a_list(x):
    tl.inline_asm_elementwise("", "=r,r", x, tl.int32, True, 1)


def test_arguments_are_a_list() -> None:
    error = refusal(not_a_list, PTR)
    assert "the args of tl.inline_asm_elementwise are a list, not ptr<i32>" in error.message


@tile.jit
def unknown(x):
    y = tl.inline_asm_elementwise("""
        mov.u32 $0, $1;
        foo.u32 $0, $1;""", "=r,r", [tl.load(x)], tl.int32, True, 1)  # fmt: skip
    tl.store(x, y)


def test_an_unknown_instruction_is_shown_with_a_way_out() -> None:
    """The error is at the call in Python; the message has the line of the text."""
    with pytest.raises(CompilationError) as caught:
        tile.compile(unknown, {"x": "*i32"}, {}, {}, "interp")
    message = caught.value.message
    assert message.startswith("line 3 of the asm, `foo.u32 $0, $1;`: only GPUs of NVIDIA execute")
    assert "give `reference=f`, a @tile.jit function of the arguments" in message
    assert underlined(caught.value).startswith("tl.inline_asm_elementwise(")


@tile.jit
def text(x, ASM: tl.constexpr):
    i = tl.arange(0, 32)
    tl.store(x + i, tl.inline_asm_elementwise(ASM, "=r,r,l", [i, x + i], tl.int32, False, 1))


@pytest.mark.parametrize(
    ("asm", "message"),
    [
        ("atom.global.add.u32 $0, [$2], 1;", "once in each thread that holds an element"),
        ("red.global.add.u32 [$2], 1;", "use the functions `tl.atomic_*`"),
        ("red.global.min.max.u32 [$2], 1;", "use the functions `tl.atomic_*`"),
        ("red.global.max.f32 [$2], 1.0;", "only GPUs of NVIDIA execute this instruction; for"),
        ("red.shared.or.b32 [$2], 1;", "use the functions `tl.atomic_*`"),
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", "it takes registers of other threads"),
        ("vote.sync.ballot.b32 $0, 1, -1;", "use `tl.gather`, `tl.reduce` or"),
        ("exit;", "leaves the text for a whole thread"),
        ("again: mov.u32 $0, $1; bra again;", "`bra again;`: it branches back"),
        ("mov.u32 $0, $1; bra nowhere;", "the asm has no label `nowhere:`"),
        ("{ inner: mov.u32 $0, $1; } bra inner;", "the asm has no label `inner:`"),
        (
            "{.reg .pred p; setp.eq.s32 p, $1, 1; @p bra on; bar.sync 0; on: mov.u32 $0, $1;}",
            "all elements wait at a barrier",
        ),
    ],
)
def test_instructions_without_meaning_for_an_element_are_refused(asm: str, message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        tile.compile(text, {"x": "*i32"}, {"ASM": asm}, {}, "interp")
    assert message in caught.value.message


@tile.jit
def scalar(x, ASM: tl.constexpr):
    tl.store(x, tl.inline_asm_elementwise(ASM, "=r,l", [x], tl.int32, False, 1))


def test_an_address_may_be_a_number_plus_an_argument() -> None:
    x = np.array([0, 7], np.int32)
    asm = "{.reg .u64 a; add.s64 a, 4, $1; ld.global.u32 $0, [a];}"
    with tile.backend("interp"):
        scalar[(1,)](x, ASM=asm)
    assert x[0] == 7


def test_integers_are_octal_after_a_zero() -> None:
    asm = "{.reg .u32 a<0x2>; mov.u32 a0, 010; add.u32 $0, a0, 0b11;}"
    kernel = tile.compile(text, {"x": "*i32"}, {"ASM": asm}, {}, "interp")
    assert "value = 11" in kernel.asm["tile-optimized"]


def test_an_unknown_instruction_is_text_of_nvidias_targets() -> None:
    pytest.importorskip("llvmlite")
    compiled = tile.compile(unknown, {"x": "*i32"}, {}, {}, "nvptx:sm_90a")
    assert "foo.u32" in compiled.asm["ptx"]


@tile.jit
def volatile_in_reduction(a, b):
    return tl.inline_asm_elementwise("max.f32 $0, $1, $2;", "=f,f,f", [a, b], tl.float32, False, 1)


def reduces(x):
    tl.store(x, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, volatile_in_reduction))


def test_combine_functions_have_no_effects() -> None:
    assert "`inline_asm` is not allowed there" in refusal(reduces, Pointer(F32)).message
