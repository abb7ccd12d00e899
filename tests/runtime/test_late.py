"""What is imported when it is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tile
from tile.late import late


def test_every_public_name_is_there() -> None:
    for module in (tile, tile.runtime):
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert tile.Autotuner is tile.runtime.Autotuner
    assert tile.testing is sys.modules["tile.testing"]
    with pytest.raises(AttributeError, match="module 'tile' has no attribute 'autotun'"):
        tile.autotun


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, tile\n"
        "late = {'tile.testing', 'tile.runtime.autotune', 'tile.frontend.compile', 'tile.faults'}\n"
        "assert not late & set(sys.modules)\n"
        "from tile import Config, testing\n"
        "assert {'tile.testing', 'tile.runtime.autotune'} <= set(sys.modules)\n"
        "assert 'Config' in vars(tile)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_function() -> None:
    repeated = late("textwrap", "shorten")
    assert [repeated("a  b", width=9) for _ in "ab"] == ["a b"] * 2
    with pytest.raises(ModuleNotFoundError):
        late("tile.absent", "nothing")()
