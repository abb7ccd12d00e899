"""The search for faults finds them, and goes on after what ends its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.random_kernels import Verdict
from tests.fuzz.search import Task, blame, judge

# Number 1 is wrong, 2 raises, 3 ends the process, each in its own way; number 0 is as it was.
FAULTY = """
import os, sys
from tests.fuzz import random_kernels, search

right = random_kernels.Drawn.on

def on(self, target):
    if target == "interp:generic" and self.number in (1, 2, 3):
        if self.number == 2:
            raise RuntimeError("planted")
        if self.number == 3:
            os._exit(7)
        values = right(self, target)
        for value in values:
            if getattr(value, "size", 0) and value.dtype == "int32":
                value ^= 1
        return values
    return right(self, target)

random_kernels.Drawn.on = on
if __name__ == "__main__":
    sys.exit(search.main())
"""


def searched(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "searching.py"
    program.write_text(FAULTY)
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )


@pytest.mark.nightly  # the next one does so in two processes, on two targets
def test_planted_faults_are_detected(tmp_path: Path) -> None:
    arguments = "interp:generic --kernels 4 --kinds small --jobs 1".split()
    done = searched(tmp_path, *arguments)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("interp:generic: small kernel 1: in_"), lines
    assert lines[1] == "interp:generic: small kernel 2: RuntimeError: planted"
    assert lines[2].startswith("interp:generic: small kernel 3: BrokenProcessPool: "), lines
    assert lines[3] == "interp:generic: 1 the same, 0 refused, 3 wrong"


def test_a_fault_is_held_against_its_target_alone(tmp_path: Path) -> None:
    arguments = "interp:mma interp:generic --kernels 4 --kinds small --jobs 2".split()
    done = searched(tmp_path, *arguments)
    assert done.returncode == 1, done.stderr
    *faults, mma, generic = done.stdout.splitlines()
    for number, (line, fault) in enumerate(
        zip(sorted(faults), ("in_", "RuntimeError: planted", "BrokenProcessPool: "), strict=True), 1
    ):
        assert line.startswith(f"interp:generic: small kernel {number}: {fault}"), faults
    assert mma == "interp:mma: 4 the same, 0 refused, 0 wrong"
    assert generic == "interp:generic: 1 the same, 0 refused, 3 wrong"
    assert (
        "interp:mma interp:generic: small kernels 0 to 3 again: RuntimeError: planted"
        in done.stderr
    )


def test_a_fault_is_found_although_time_is_up() -> None:
    task = Task(("interp:mma", "interp:generic"), "small", range(4, 6), end=0)
    tasks = [task]
    for _ in range(2):
        tasks = [part for task in tasks for part in blame(task, RuntimeError("planted"))[1]]
    assert [(task.targets, *task.numbers) for task in tasks] == [
        ((target,), number) for number in (4, 5) for target in ("interp:mma", "interp:generic")
    ]
    assert not judge(task).counts
    assert judge(tasks[1]).counts == {("interp:generic", Verdict.SAME): 1}


def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    done = searched(tmp_path, "interq")
    assert done.returncode == 2
    assert "interq" in done.stderr.splitlines()[-1]
    assert not done.stdout
