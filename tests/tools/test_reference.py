"""The reference pages in `docs/` are what the declarations say today."""

import subprocess
import sys
from pathlib import Path

import pytest

import tile.language as tl
from docs.reference.pages import PAGES, page
from tile.ir.declare import OPS
from tile.language.base.builtin import Builtin

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_not_stale(name: str) -> None:
    path = ROOT / PAGES[name].path
    assert path.read_text() == page(name), "run `python -m docs.reference --write`"


def test_everything_is_documented() -> None:
    bare = [defn.name for defn in OPS if not defn.doc]
    bare += [n for n in tl.__all__ if isinstance(f := getattr(tl, n), Builtin) and not f.__doc__]
    assert not bare


def test_command_prints_the_page() -> None:
    command = [sys.executable, "-m", "docs.reference", "ir"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT, check=True)
    assert done.stdout == page("ir")
