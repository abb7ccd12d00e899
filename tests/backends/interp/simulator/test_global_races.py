"""Races on global memory among the threads of a program, which are detected on request."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import framed, result, run
from tile.errors import RaceError

# Each thread stores its own element of %out, and then accesses that of the next thread.
NEXT = """
  %one = const {value = 1} : frag<1xi32>
  %j = xor %i, %one : frag<1xi32>
  %r = addptr %to, %j {stride = 4} : frag<1xptr<f32>>
"""
OWN = "store %q, %x\n"
LOAD_NEXT = "%y = load %r : frag<1xf32>\n"
LOAD_OWN = "%z = load %q : frag<1xf32>\n"
STORE_NEXT = "store %r, %x\n"


@pytest.fixture(autouse=True)
def _looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_INTERP_RACES", "1")


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (OWN, LOAD_NEXT, "`k` reads `out` at element 1, which another thread wrote, with no"),
        (LOAD_OWN, STORE_NEXT, "`k` writes `out` at element 1, which another thread read, with no"),
        (OWN, STORE_NEXT, "`k` writes `out` at element 1, which another thread wrote, with no"),
    ],
)
def test_another_thread_without_a_barrier(first: str, second: str, what: str) -> None:
    with pytest.raises(RaceError, match=re.escape(what)) as caught:
        result(NEXT + first + second)
    assert "thread 0 (warp 0, lane 0), by" in str(caught.value)
    assert re.search(r"note: (wrote|read) by thread 1 \(warp 0, lane 1\), by `", str(caught.value))
    result(NEXT + first + "barrier\n" + second)


def test_not_detected_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILE_INTERP_RACES")
    result(NEXT + OWN + LOAD_NEXT)


def test_a_thread_and_its_own_elements() -> None:
    result(NEXT + OWN + LOAD_OWN + OWN)


def test_all_may_read_one_element() -> None:
    body = "%y = load %to : frag<1xf32>\n%z = load %to : frag<1xf32>\n"
    result(body)


def test_other_programs_are_not_checked() -> None:
    """Both programs store all elements, and no thread touches those of another."""
    run(framed(OWN), np.zeros(64, np.float32), np.zeros(64, np.float32), grid=2)


def test_masked_lanes_touch_nothing() -> None:
    body = "%no = const {value = false} : frag<1xi1>\nstore %r, %x, %no\n"
    result(NEXT + OWN + body)
