"""`benchmarks/goals.py` says if a result is wrong, and ends with status 1 then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture
def goals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import goals

    return goals


@pytest.mark.parametrize(
    ("peer", "status"),
    [(lambda: torch.ones(4), 0), (lambda: torch.zeros(4), 1), (lambda: 1 / 0, 0)],
    ids=["right", "wrong", "does not run"],
)
def test_the_exit_status(
    goals: ModuleType, peer: Callable[[], object], status: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def make(name: str, goal: str) -> object:
        case = goals.Case(name, goal, "GB/s", 16.0, torch.ones(4), torch.empty(4))
        case.ours["ours"] = lambda: torch.ones(4)
        case.peers["peer"] = peer
        return case

    monkeypatch.setattr(goals, "makers", lambda: [("ones", "1.00", make)])
    monkeypatch.setattr(sys, "argv", ["goals.py", "--once"])
    assert goals.main() == status
    assert ("WRONG ones, peer" in capsys.readouterr().out) == bool(status)


def test_a_case_that_cannot_be_measured(
    goals: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(name: str, goal: str) -> object:
        raise RuntimeError("no such card")

    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 0)
    monkeypatch.setattr(goals, "makers", lambda: [("ones", "1.00", make)])
    monkeypatch.setattr(sys, "argv", ["goals.py"])
    assert goals.main() == 1
    assert "no such card" in capsys.readouterr().out
