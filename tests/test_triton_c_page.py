"""`docs/triton_c.md` has the grammar, the types and the functions of today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "triton_c_page.py")],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    written = (ROOT / "docs" / "triton_c.md").read_text("utf-8")
    assert done.stdout == written, "run `python docs/triton_c_page.py > docs/triton_c.md`"
