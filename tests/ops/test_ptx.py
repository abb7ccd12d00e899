"""Every kernel compiles for an H100 with the configurations of its table, and ptxas takes its PTX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
from tests.ops.cases import EVERYWHERE, Case, function_of
from tile.runtime.jit import JITFunction

pytest.importorskip("llvmlite")
from tests.backends.nvptx.assembling import assemble


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Compile kernels instead of launching them; the result is the PTX by name."""
    texts: dict[str, str] = {}

    def compile_only(kernel: JITFunction[..., Any], grid: Any) -> Any:
        def launch(*args: Any, **options: Any) -> None:
            texts[kernel.__name__] = kernel.warmup(*args, grid=grid, **options).asm["ptx"]

        return launch

    monkeypatch.setattr(JITFunction, "__getitem__", compile_only)
    return texts


@pytest.mark.parametrize("case", EVERYWHERE, ids=lambda case: f"{case.op}-{case.label}")
def test_ptx_is_assembled(case: Case, compiled: dict[str, str]) -> None:
    dtype = "float16" if "float16" in case.dtypes else case.dtypes[0]
    args, options = case.arguments(dtype)
    with tile.backend("nvptx:sm_90a"):
        function_of(case.op)(*args, **options)
    assert compiled
    for text in compiled.values():
        assemble(text, "sm_90a")


@pytest.mark.parametrize("rows", [16, 2048])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_weights_of_4_bits_are_converted_two_at_a_time(
    rows: int, kind: str, compiled: dict[str, str]
) -> None:
    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]
    a, packed = np.zeros((rows, 512), dtype), np.zeros((512, 256), np.uint8)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.int4_matmul(a, packed, np.zeros((512, 4), np.float32))
    text = compiled["int4_matmul_kernel"]
    assert f"fma.rn.{kind}x2" in text and "cvt.rn.f32.s32" not in text
    # Only scales are converted one at a time.
    assert text[: text.rindex("bra")].count(f"cvt.rn.{kind}.f32") <= 16
