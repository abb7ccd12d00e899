"""`pytest --tile-sanitize`, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

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
PLUGIN = "tile.tools.pytest_plugin"
ROOT = Path(__file__).parent.parent.parent


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the tests above; an installed package brings the plugin by itself."""
    (folder / "test_mine.py").write_text(TESTS, encoding="utf-8")
    installed = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", PLUGIN]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
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


def test_a_check_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--tile-sanitize=speed")
    assert done.returncode == 4
    assert "there is no check 'speed'; there are bounds, race" in done.stderr
