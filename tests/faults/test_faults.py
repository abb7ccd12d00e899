"""Every planted bug is found, with class, line, program and place; every sound twin is silent."""

from __future__ import annotations

import pytest

from tests.faults.table import CASES, rows


@pytest.mark.parametrize("name", CASES)
def test_planted(name: str) -> None:
    assert CASES[name].problems() == []


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 80
    assert {row[0] for row in rows()} >= {"bounds", "race", "undef", "overflow", "assume"}
