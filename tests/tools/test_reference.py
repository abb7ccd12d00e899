"""The reference pages in `docs/` are what the declarations say today."""

from pathlib import Path

import pytest

import tile.language as tl
from tile.ir.declare import OPS
from tile.language.base.builtin import Builtin
from tile.tools.cli import main
from tile.tools.reference import PAGES, page

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_not_stale(name: str) -> None:
    path = ROOT / PAGES[name].path
    assert path.read_text() == page(name), "run `python -m tile reference --write`"


def test_everything_is_documented() -> None:
    bare = [defn.name for defn in OPS if not defn.doc]
    bare += [n for n in tl.__all__ if isinstance(f := getattr(tl, n), Builtin) and not f.__doc__]
    assert not bare


def test_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reference", "ir"]) == 0
    assert capsys.readouterr().out == page("ir")
