"""The page on finding faults: its kernels run, and say what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tile.errors import ExecutionError

PAGE = Path(__file__).parent.parent / "docs" / "debugging.md"
PAIR = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
HEAD = "import numpy as np\nimport tile\nimport tile.language as tl\n\n"


def said(code: str, folder: Path) -> str:
    """Return what a program prints, or the error that it ends with, without its folder."""
    path = folder / "kernel.py"
    path.write_text(HEAD + code, encoding="utf-8")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(HEAD + code, str(path), "exec"), {"__name__": "kernel"})
    except ExecutionError as error:
        printed.write(f"{type(error).__name__}: {error}\n")
    return printed.getvalue().replace(f"{folder}/", "")


PAIRS = PAIR.findall(PAGE.read_text("utf-8"))


@pytest.mark.parametrize("index", range(6))
def test_the_page_says_what_is_said(index: int, tmp_path: Path) -> None:
    code, text = PAIRS[index]
    assert said(code, tmp_path) == text


def test_no_program_is_left_out() -> None:
    assert len(PAIRS) == PAGE.read_text("utf-8").count("```python") == 6
