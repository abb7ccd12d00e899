"""The operands that `tl.dot_scaled` refuses, types of its result, and what it computes without."""

from __future__ import annotations

from typing import Any

import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError

A, B = "tile<16x32xu8>", "tile<32x16xu8>"  # packed: K is 64
LEFT, RIGHT = "tile<16x2xu8>", "tile<16x2xu8>"
E4M3 = ("tile<16x64xf8e4m3>", "tile<64x16xf8e4m3>")


def emit(
    types: tuple[str, ...], formats: tuple[Any, Any] = ("e2m1", "e2m1"), **options: Any
) -> tuple[Sketch, Any]:
    """Emit a dot of operands of four types: both sides, each with its scale; "" is none."""
    sketch = Sketch(*filter(None, types))
    values = iter(sketch.args)
    a, sa, b, sb, *acc = (next(values) if ty else None for ty in types)
    result = tl.dot_scaled.emit(sketch.build, a, sa, formats[0], b, sb, formats[1], *acc, **options)
    return sketch, result


REFUSALS: list[tuple[tuple[str, ...], tuple[Any, Any], dict[str, Any], str]] = [
    ((A, LEFT, B, RIGHT), ("e2m3", "e2m1"), {}, "Invalid float format: 'e2m3'. The lhs_format"),
    ((A, LEFT, B, RIGHT), ("e2m1", 4), {}, "Invalid float format: 4. The rhs_format"),
    (
        ("tile<16x32xi8>", LEFT, B, RIGHT),
        ("e2m1", "e2m1"),
        {},
        "e2m1 format must be packed as uint8. Got tl.int8",
    ),
    (
        ("tile<16x64xi32>", "", E4M3[1], ""),
        ("e4m3", "e4m3"),
        {},
        "Unexpected dtype for e4m3. Got tl.int32, not tl.float8e4nv or tl.uint8",
    ),
    (
        (*E4M3[:1], "", E4M3[1], ""),
        ("e4m3", "e4m3"),
        {"rhs_k_pack": False},
        "only mxfp4 inputs can be packed along a dimension different than K: rhs_k_pack",
    ),
    (
        (A, LEFT, E4M3[1].replace("64", "128"), ""),
        ("e2m1", "e4m3"),
        {},
        "Reduction dimension should pack the same number of elements; "
        "(lhs: [16, 32] vs rhs: [128, 16]); K is 64 and 128",
    ),
    (
        (A, "tile<16x4xu8>", B, RIGHT),
        ("e2m1", "e2m1"),
        {},
        "lhs_scale must be a tensor of shape ['...', 16, 2]. Got [16, 4]",
    ),
    (
        (A, LEFT, B, "tile<2x16xf8e4m3>"),
        ("e2m1", "e2m1"),
        {},
        "rhs_scale must be a tensor of shape ['...', 16, 4]. Got [2, 16]; a scale of "
        "tl.float8e4nv is that of 16 of the 64 elements along K",
    ),
    (
        (A, "tile<16x2xf32>", B, RIGHT),
        ("e2m1", "e2m1"),
        {},
        "the lhs_scale of tl.dot_scaled has elements tl.uint8 (e8m0) or tl.float8e4nv, not",
    ),
    (
        ("tile<2x16x32xu8>", "", B, RIGHT),
        ("e2m1", "e2m1"),
        {},
        "Both inputs must be either 2D or 3D; (lhs: [2, 16, 32] vs rhs: [32, 16])",
    ),
    (
        (A, LEFT, B, RIGHT, "tile<16x16xf16>"),
        ("e2m1", "e2m1"),
        {},
        "the acc of tl.dot_scaled is a tile of the result's type tile<16x16xf32>, not",
    ),
    (
        (A, LEFT, B, RIGHT),
        ("e2m1", "e2m1"),
        {"out_dtype": tl.int32},
        "the out_dtype of tl.dot_scaled is tl.float32 or tl.float16 or tl.bfloat16, not tl.int32",
    ),
]


@pytest.mark.parametrize(("types", "formats", "options", "words"), REFUSALS)
def test_refusals(
    types: tuple[str, ...], formats: tuple[Any, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(CompilationError) as caught:
        emit(types, formats, **options)
    assert words in caught.value.message


@pytest.mark.parametrize("out", [tl.float32, tl.float16, tl.bfloat16])
@pytest.mark.parametrize("k_pack", [True, False])
def test_the_type_of_the_result(out: Any, k_pack: bool) -> None:
    side = "tile<2x16x32xu8>" if k_pack else "tile<2x8x64xu8>"
    sketch, result = emit(
        (side, "tile<2x16x2xi8>", "tile<2x64x16xu16>", ""),
        ("e2m1", "bf16"),
        lhs_k_pack=k_pack,
        out_dtype=out,
    )
    assert result.shape == (2, 16, 16) and result.dtype is out
    assert any("dot" in line and "2x16x16xf32" in line for line in sketch.text())


def test_8_bit_floats_without_scales_are_multiplied_as_they_are() -> None:
    sketch, _ = emit((E4M3[0], "", E4M3[1], ""), ("e4m3", "e4m3"))
    assert not any("cast" in line or "mul" in line for line in sketch.text())


def test_fast_math_omits_the_test_for_nan() -> None:
    types = (A, LEFT, B, RIGHT)
    exact, fast = (
        sum("predicate = eq" in line for line in emit(types, fast_math=value)[0].text())
        for value in (False, True)
    )
    assert (exact, fast) == (2, 0)
