"""Loops that may never end are in the text, with an access that no compiler removes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyopencl")

import tile
from tests.backends.interp.test_spins import FOREVER, dead_loops, parameter, volatile_flag

SPIN = {"lock": "*i32", "n": "i32", "o": "*i32"}
SIDE_EFFECT = "volatile int side_effect = 0;"


def compiled(kernel: Any, signature: dict[str, str]) -> str:
    return str(tile.compile(kernel, signature, target="opencl:generic").asm["opencl"])


@pytest.mark.filterwarnings("ignore:a GPU")
@pytest.mark.parametrize("kernel", FOREVER, ids=lambda kernel: kernel.__name__)
def test_an_endless_loop_is_preserved(kernel: Any) -> None:
    text = compiled(kernel, SPIN)
    assert "while (true) {" in text
    assert SIDE_EFFECT in text or "atomic" in text or "volatile __global" in text


def test_a_loop_that_ends_is_not() -> None:
    text = compiled(dead_loops, {"n": "i32", "o": "*i32"})
    assert "while" not in text and "for (" not in text and SIDE_EFFECT not in text


def test_a_side_effect_is_put_only_where_there_is_none() -> None:
    assert SIDE_EFFECT in compiled(parameter, SPIN)
    assert SIDE_EFFECT not in compiled(volatile_flag, SPIN)
