"""The reference pages in `docs/` are what the declarations say today."""

from pathlib import Path

import pytest

import tile.language as tl
from tile.ir.declare import OPS
from tile.language.core.builtin import Builtin
from tile.tools.cli import main
from tile.tools.reference import PAGES, page

ROOT = Path(__file__).parents[2]
STUBS = {
    "stub": "tile/language/__init__.pyi",
    "math-stub": "tile/language/_math.pyi",
    "random-stub": "tile/language/_random.pyi",
}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_not_stale(name: str) -> None:
    path = STUBS.get(name, f"docs/{name}.md")
    assert (ROOT / path).read_text() == page(name), f"run `tile reference {name} > {path}`"


def test_everything_is_documented() -> None:
    bare = [defn.name for defn in OPS if not defn.doc]
    bare += [n for n in tl.__all__ if isinstance(f := getattr(tl, n), Builtin) and not f.__doc__]
    assert not bare


def test_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reference", "ir"]) == 0
    assert capsys.readouterr().out == page("ir")
