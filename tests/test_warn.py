"""Warnings are shown at the user's line: of the kernel, or of the call."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.location import Loc
from tile.tracebacks import warn


@tile.jit
def waits(flag_ptr, out_ptr):
    while tl.load(flag_ptr) == 0:
        pass
    tl.store(out_ptr, 1)


def test_a_place_in_a_kernel_is_where_a_warning_is_shown() -> None:
    with pytest.warns(RuntimeWarning, match="read by tl.load") as caught:
        tile.compile(waits, {"flag_ptr": "*i32", "out_ptr": "*i32"}, target="interp")
    (one,) = caught
    lines, first = inspect.getsourcelines(waits.fn)
    loop = next(at for at, line in enumerate(lines) if "while" in line)
    assert (one.filename, one.lineno) == (__file__, first + loop)


def test_else_it_is_the_call_of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_INTERP_LEVEL", "thread")
    monkeypatch.setenv("TILE_SANITIZE", "overflow")
    flag, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        waits[(1,)](flag, out, num_warps=2)
    (one,) = (one for one in caught if "does not do" in str(one.message))
    assert one.filename == __file__
    assert out == 1


def test_a_call_warns_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn("from one line")
        warn("from another")
        warn("at a place", Loc("kernel.py", 7))
    assert [str(one.message) for one in caught] == ["from one line", "from another", "at a place"]
    assert caught[-1].filename == "kernel.py"
    assert caught[-1].lineno == 7
