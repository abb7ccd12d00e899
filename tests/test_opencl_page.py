"""`docs/opencl.md` is what its kernels become today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")

ROOT = Path(__file__).parent.parent


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "opencl_page.py")],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env=None,
        timeout=60,
        check=True,
    )
    written = (ROOT / "docs" / "opencl.md").read_text("utf-8")
    assert done.stdout == written, "run `python docs/opencl_page.py > docs/opencl.md`"
