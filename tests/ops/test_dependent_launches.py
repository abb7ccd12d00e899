"""Launches of tile.ops are dependent where their programs are few, or long enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile.ops
from tile.ops.core.dependent_launches import RATES, is_dependent
from tile.runtime.jit import JITFunction


@pytest.mark.parametrize(
    ("programs", "size", "dependent"),
    [
        (1, 0, True),
        (RATES.programs, 0, True),
        (RATES.programs + 1, 0, False),
        (32768, 2**20, False),  # 32 bytes of each program
        (32768, 2**28, True),  # 8 KiB
    ],
)
def test_programs_are_few_or_move_enough(programs: int, size: int, dependent: bool) -> None:
    array = np.broadcast_to(np.zeros((), np.int8), (size,))  # takes no memory
    assert array.nbytes == size
    assert is_dependent((programs,), [None, array, 3]) is dependent
    assert is_dependent((1, programs), [None, (array,), 3]) is dependent


@pytest.fixture
def dependent(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Launch nothing; the result is the option of each kernel by name."""
    options: dict[str, bool] = {}

    def note_only(kernel: JITFunction[..., Any], grid: Any) -> Any:
        def launch(*args: Any, **given: Any) -> None:
            options[kernel.__name__] = given.get("launch_pdl", False)

        return launch

    monkeypatch.setattr(JITFunction, "__getitem__", note_only)
    return options


def test_ops_launch_by_the_rule(dependent: dict[str, bool]) -> None:
    tile.ops.rms_norm(np.zeros((256, 1024), np.float16), np.ones(1024, np.float16))
    assert dependent.popitem()[1]
    tile.ops.softmax(np.zeros((4096, 1024), np.float16))
    assert not dependent.popitem()[1]
