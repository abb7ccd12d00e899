"""`docs/matmul.md` shows what its kernels become today, and these multiply matrices."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tile

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_up_to_date() -> None:
    pytest.importorskip("llvmlite")
    done = subprocess.run(
        [sys.executable, str(DOCS / "matmul_page.py")],
        capture_output=True,
        encoding="utf-8",
        cwd=DOCS.parent,
        timeout=60,
        check=True,
    )
    written = (DOCS / "matmul.md").read_text("utf-8")
    assert done.stdout == written, "run `python docs/matmul_page.py > docs/matmul.md`"


def kernels() -> ModuleType:
    path = DOCS / "matmul_kernels.py"
    spec = importlib.util.spec_from_file_location("matmul_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["matmul", "matmul_tma"])
@pytest.mark.parametrize("backend", ["interp", "interp:wgmma"])
def test_the_kernels_multiply(name: str, backend: str) -> None:
    random = np.random.default_rng(0)
    m, n, k = 64, 128, 192
    a = random.integers(-4, 5, (m, k)).astype(np.float16)
    b = random.integers(-4, 5, (k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    with tile.backend(backend):
        kernel = getattr(kernels(), name)
        kernel[(1, 2)](a, b, c, m, n, k, BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
