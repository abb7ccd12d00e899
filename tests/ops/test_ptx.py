"""Every kernel compiles for an H100 with the configurations of its table, and ptxas takes its PTX."""

from __future__ import annotations

from typing import Any

import pytest

import tile
from tests.ops.cases import CASES, Case, function_of
from tile.runtime.jit import JITFunction

pytest.importorskip("llvmlite")
from tests.backends.nvptx.assembling import assemble

FIRST = list({case.op: case for case in reversed(CASES)}.values())


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


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.op)
def test_ptx_is_assembled(case: Case, compiled: dict[str, str]) -> None:
    dtype = "float16" if "float16" in case.dtypes else case.dtypes[0]
    args, options = case.arguments(dtype)
    with tile.backend("nvptx:sm_90a"):
        function_of(case.op)(*args, **options)
    assert compiled
    for text in compiled.values():
        assemble(text, "sm_90a")
