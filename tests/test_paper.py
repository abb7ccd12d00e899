"""`benchmarks/paper.py`: points are stored one by one, a later run goes on, a page has them all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compiler_peers import PeerError, fastest, if_it_runs

ROOT = Path(__file__).parent.parent


def run(out: Path, *options: str, status: int = 0) -> dict[str, Any]:
    """Run the command on the CPU, and return its results."""
    command = [sys.executable, "benchmarks/paper.py", "--cpu", "--out", str(out), *options]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == status, finished.stdout + finished.stderr
    stored: dict[str, Any] = json.loads((out / "paper" / "cpu.json").read_text())
    return stored


def test_a_later_run_goes_on(tmp_path: Path) -> None:
    options = ("--figure", "figure-1", "--limit", "0")
    first = run(tmp_path, *options)["figures"]
    assert list(first) == ["figure-1"], "a name stands for the figure of exactly that name"
    assert [point["label"] for point in first["figure-1"]["points"]] == ["176x1x176"]
    second = run(tmp_path, *options)["figures"]
    assert [point["label"] for point in second["figure-1"]["points"]] == ["176x1x176", "176x3x176"]
    assert second["figure-1"]["points"][0] == first["figure-1"]["points"][0], "measured once"
    page = (tmp_path / "paper.md").read_text()
    for figure in second.values():
        assert f"### {figure['title']}" in page
        assert all(f"| {point['label']} |" in page for point in figure["points"])
    assert "GFLOP/s" in page


def test_results_of_another_machine_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "paper" / "cpu.json"
    path.parent.mkdir()
    other = {"machine": "an abacus", "figures": {}}
    path.write_text(json.dumps(other))
    assert run(tmp_path, "--figure", "sin", "--limit", "0", status=1) == other


def fails() -> None:
    raise ValueError("no such tile")


def test_peers_that_fail_are_named(capsys) -> None:
    assert fastest([fails, dict])() == {}
    assert "configuration 1: ValueError: no such tile" in capsys.readouterr().out
    with pytest.raises(PeerError, match="no configuration runs"):
        fastest([fails])
    assert if_it_runs("TileLang", lambda: fastest([fails, fails])) is None
    assert "TileLang is left out: no configuration runs" in capsys.readouterr().out
