"""What holds of the package as a whole."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import tile.simt

FILES = sorted(Path(tile.simt.__file__).parent.glob("**/*.py"))
VENDORS = re.compile(r"nvidia|cuda|ptx|\bamd\b|rocm|hip|intel|opencl|\bw?g?mma\b|ldmatrix", re.I)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_vendor_is_named(path: Path) -> None:
    assert VENDORS.findall(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_are_true(path: Path) -> None:
    root = Path(tile.simt.__file__).parents[2]
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    module = importlib.import_module(name.removesuffix(".__init__"))
    assert doctest.testmod(module, report=True).failed == 0


def test_the_tutorial_has_examples() -> None:
    layout = importlib.import_module("tile.simt.layouts.layout")
    assert doctest.testmod(layout).attempted > 15
