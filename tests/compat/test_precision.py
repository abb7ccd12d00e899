"""The precision of dots of float32, whose default is "tf32" under Triton's names."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import ArgumentValueError


def multiply(out, x, N: tl.constexpr, TF32: tl.constexpr = None):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + at)
    tl.store(out + at, tl.dot(a, tl.trans(a), allow_tf32=TF32))


def dots(kernel, **options) -> str:
    """Return the lines of IR with the dot of a kernel that is launched with options."""
    x = np.full((16, 16), 1 + 2**-12, np.float32)
    out = np.zeros_like(x)
    compiled = kernel[1,](out, x, N=16, **options)
    (line,) = (line for line in compiled.asm["tile"].splitlines() if " dot " in line)
    assert (out[0, 0] > 16) == ("tf32" not in line), "the interpreter rounds as the IR says"
    return line


def test_the_default_is_that_of_the_names(triton) -> None:
    assert "tf32" in dots(triton.jit(multiply))
    assert "tf32" not in dots(tile.jit(multiply))


@pytest.mark.parametrize(("allowed", "rounded"), [(True, True), (False, False), (None, True)])
def test_arguments_come_before_the_default(triton, allowed: bool | None, rounded: bool) -> None:
    assert ("tf32" in dots(triton.jit(multiply), TF32=allowed)) is rounded


def test_options_of_a_launch(triton) -> None:
    assert "tf32" not in dots(triton.jit(multiply), default_dot_input_precision="ieee")
    assert "tf32" in dots(tile.jit(multiply), default_dot_input_precision="tf32")
    with pytest.raises(ArgumentValueError, match=r"is one of ieee, tf32, .*, not 'fp8'"):
        dots(tile.jit(multiply), default_dot_input_precision="fp8")


def test_the_environment(triton, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    assert triton.knobs.language.fp32_default == "ieee"
    assert "tf32" not in dots(triton.jit(multiply))
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32x3")
    assert (
        "tf32x3" in triton.jit(multiply).warmup(*[np.zeros(256, np.float32)] * 2, N=16).asm["tile"]
    )


def test_compilation_ahead_of_time(triton) -> None:
    pytest.importorskip("llvmlite")
    source = triton.compiler.ASTSource(
        triton.jit(multiply), {"out": "*fp32", "x": "*fp32", "N": "constexpr"}, {"N": 16}
    )
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    assert "tf32" in triton.compile(source, target=target).asm["tile"]
    options = {"default_dot_input_precision": "ieee"}
    assert "tf32" not in triton.compile(source, target=target, options=options).asm["tile"]


def test_fp_fusion_by_the_environment(triton, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    x = np.zeros(256, np.float32)
    assert not triton.jit(multiply).warmup(x, x, N=16).options.enable_fp_fusion
    assert triton.jit(multiply).warmup(x, x, N=16, enable_fp_fusion=True).options.enable_fp_fusion
    assert tile.jit(multiply).warmup(x, x, N=16).options.enable_fp_fusion
