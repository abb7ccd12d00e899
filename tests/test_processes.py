"""Processes that tests run next to themselves end with them, failing or not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tile
from tests.processes import all_running

SLEEPS = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]


def test_processes_end_with_a_test_that_fails() -> None:
    started = []

    def fail() -> None:
        with all_running(SLEEPS, 2, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as processes:
            started.extend(processes)
            assert [process.stdout.readline() for process in processes] == ["begun\n"] * 2
            raise AssertionError("the test failed")

    with pytest.raises(AssertionError, match="the test failed"):
        fail()
    for process in started:
        assert process.returncode not in (None, 0)
        assert process.stdout.closed
        assert process.stderr.closed


def test_processes_that_ended_keep_their_status() -> None:
    with all_running([sys.executable, "-c", "raise SystemExit(3)"], 2) as processes:
        for process in processes:
            process.wait()
    assert [process.returncode for process in processes] == [3, 3]


def test_processes_import_this_checkout(tmp_path) -> None:
    command = [sys.executable, "-c", "import tile; print(tile.__file__)"]
    printed = subprocess.check_output(command, cwd=tmp_path, text=True)
    assert printed.strip() == tile.__file__
