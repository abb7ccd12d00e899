"""`pytest --tile-sanitize`, in a process of its own."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_tile
from tests.sampling import is_nightly
from tile.checks import Check

TESTS = """\
import numpy as np
import tile
import tile.language as tl


@tile.jit
def last_wins(o_ptr):
    tl.store(o_ptr, tl.program_id(0))


def test_racy():
    last_wins[(4,)](np.zeros(1, np.int32))


def test_sound():
    last_wins[(1,)](np.zeros(1, np.int32))
"""
PLUGIN = "pytest_tile"
NIGHTLY = functools.partial(pytest.param, marks=pytest.mark.nightly)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the tests above; an installed package brings the plugin by itself."""
    (folder / "test_mine.py").write_text(TESTS, encoding="utf-8")
    installed = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", PLUGIN]
    return pytest_in(folder, *plugin, *options, ".")


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest without other plugins, whose import would take most of the time."""
    plugins = importlib.metadata.entry_points(group="pytest11")
    others = {e.name for e in plugins if e.value != PLUGIN}
    if "-n" in arguments:
        others -= {"xdist", "xdist.looponfail"}
    blocked = [word for name in sorted(others) for word in ("-p", f"no:{name}")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *blocked, *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_fault_fails_its_test(tmp_path: Path) -> None:
    done = run(tmp_path, "--tile-sanitize=all")
    assert done.returncode == 1
    assert "tile: on the interpreter, with checks all" in done.stdout
    assert "DataRaceError: `last_wins` writes `o_ptr[0]`" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_nothing_is_checked_without_the_option_or_the_check(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert run(tmp_path, "--tile-sanitize=undef").returncode == 0


def test_the_end_says_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_INTERP_LEVEL", "thread")  # the option stands above it
    checked = "tile: checked for bounds, race, deadlock: 2 launches of `last_wins` on interp\n"
    for xdist in ([], ["-n", "2" if is_nightly() else "1"]):
        assert checked in run(tmp_path, "--tile-sanitize=race", *xdist).stdout
        empty = run(tmp_path, "--tile-sanitize", "--deselect", "test_mine.py", *xdist)
        assert "tile: nothing was checked\n" in empty.stdout


def test_tests_on_other_backends_are_not_called_checked(tmp_path: Path) -> None:
    """The environment is passed over by a test that chooses a backend, with a warning."""
    elsewhere = TESTS.replace("    last_wins", "    with tile.backend('interp:generic'): last_wins")
    (tmp_path / "test_mine.py").write_text(elsewhere, encoding="utf-8")
    installed = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    done = pytest_in(tmp_path, *([] if installed else ["-p", PLUGIN]), "--tile-sanitize=race", ".")
    assert done.returncode == 0
    warning = "RuntimeWarning: TILE_SANITIZE asks for checks that interp:generic does not do: race"
    assert done.stdout.count(warning) == 1
    assert "tile: checked for bounds, deadlock: 2 launches" in done.stdout
    assert "tile: checked for bounds, race" not in done.stdout


def test_a_check_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--tile-sanitize=speed")
    assert done.returncode == 4
    assert "there is no check 'speed'; there are bounds, race" in done.stderr


def test_a_separate_word_is_not_a_check(tmp_path: Path) -> None:
    """The option never takes the next argument, so a separate word is a path as any other."""
    done = run(tmp_path, "--tile-sanitize", "race")
    assert done.returncode == 4
    assert "file or directory not found: race" in done.stderr


@pytest.mark.parametrize("place", ["before", NIGHTLY("between"), NIGHTLY("after"), "addopts"])
def test_a_path_after_the_option_stays_a_path(tmp_path: Path, place: str) -> None:
    """The conftest next to the test is one of the first, which may declare options."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--mine')\n"
    )
    (tmp_path / "test_other.py").write_text("def test_other():\n    assert False\n")
    (inner / "test_mine.py").write_text(TESTS, encoding="utf-8")
    words = {
        "before": ["--tile-sanitize", "inner/test_mine.py", "--mine=1"],
        "between": ["--mine=1", "--tile-sanitize", "-s", "inner/test_mine.py"],
        "after": ["inner/test_mine.py", "--mine=1", "--tile-sanitize"],
        "addopts": ["-o", "addopts=--tile-sanitize", "inner/test_mine.py", "--mine=1"],
    }
    installed = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    done = pytest_in(tmp_path, *([] if installed else ["-p", PLUGIN]), *words[place])
    assert "tile: on the interpreter, with checks all" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout


def test_a_run_without_the_option_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert 'pytest_tile' in sys.modules\n"
        "    assert not {'tile', 'numpy', 'ml_dtypes'} & set(sys.modules)\n"
    )
    done = pytest_in(tmp_path, "-p", PLUGIN, ".")
    assert done.returncode == 0, done.stdout


def test_the_help_names_every_check() -> None:
    assert pytest_tile.CHECKS == tuple(check.value for check in Check)
