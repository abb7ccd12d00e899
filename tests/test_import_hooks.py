"""Code that runs after another library's module is imported."""

import sys
from pathlib import Path

import pytest

from tile._import_hooks import call_after_import

REGISTER = """
import library

calls = []


def register():
    calls.append(library.complete)
"""
LIBRARY = """
from tile._import_hooks import call_after_import

if {during}:
    call_after_import("library", "register", "register")
complete = True
"""


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_the_module_is_complete(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that imports Triton while it is imported itself finds `tile` in its place."""
    (tmp_path / "library.py").write_text(LIBRARY.format(during=when == "during"))
    (tmp_path / "register.py").write_text(REGISTER)
    (tmp_path / "later.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finders = len(sys.meta_path)
    try:
        if when == "before":
            call_after_import("library", "register", "register")
        __import__("library")
        if when == "after":
            call_after_import("library", "register", "register")
        __import__("later")
        assert sys.modules["register"].calls == [True]
        assert len(sys.meta_path) == finders
    finally:
        for name in ("library", "register", "later"):
            sys.modules.pop(name, None)
