"""Every planted bug is found, with class, line, program and place; every sound twin is silent."""

from __future__ import annotations

import pytest

from tests.faults.planted import ERRORS
from tests.faults.table import CASES, rows
from tile.checks import Check
from tile.config import config


@pytest.mark.parametrize("name", CASES)
def test_planted(name: str) -> None:
    assert CASES[name].problems() == []


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.kind != "deadlock"])
def test_one_program_after_the_other(name: str) -> None:
    """Faults do not depend on which programs run together."""
    case = CASES[name]
    with config.scope(chunk_bytes=1):
        error = case.raised(True)
        assert type(error) is ERRORS[case.kind], error
        assert case.raised(False) is None


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 80
    assert {row[0] for row in rows()} >= set(Check)
