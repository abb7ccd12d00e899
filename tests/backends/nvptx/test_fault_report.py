"""Reports of false assertions in memory that host and device share."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings")

from tile.backends.base import Assertion
from tile.backends.nvptx import driver
from tile.backends.nvptx.loaded_module import FaultRecord
from tile.errors import DeviceAssertionError
from tile.location import Loc


class Shared:
    """Memory that host and device share, and the variables that the host has written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fields = (ctypes.c_int32 * 8)()
        self.written: list[tuple[int, int]] = []
        address = ctypes.addressof(self.fields)
        monkeypatch.setattr(driver, "shared_with_host", lambda size: (address, 1 << 40))
        monkeypatch.setattr(driver, "write_variable", lambda at, value, _: self.note(at, value))

    def note(self, at: int, value: int) -> None:
        self.written.append((at, value))

    def report(self) -> None:
        """Write what a thread with a false assertion writes."""
        self.fields[:5] = [1, 2, 3, 4, 37]


def new_record() -> FaultRecord:
    loaded: Any = SimpleNamespace(global_address=lambda name: len(name))
    assertion = Assertion(message="x is positive", loc=Loc("kernel.py", 7, 4))
    metadata: Any = SimpleNamespace(kernel="scale", assertions=(assertion,))
    return FaultRecord(loaded, metadata)


def test_the_next_launch_raises_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = Shared(monkeypatch)
    record = new_record()
    record.check()
    shared.report()
    with pytest.raises(DeviceAssertionError, match="in `scale`: x is positive") as raised:
        record.check()
    assert raised.value.loc == Loc("kernel.py", 7, 4)
    assert "program (2, 3, 4), thread 37 (warp 1, lane 5)" in str(raised.value)
    assert shared.written[-1][1] == 0
    record.check()
    del record
    gc.collect()
    assert capsys.readouterr().err == ""


def test_a_report_that_no_launch_has_seen_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = Shared(monkeypatch)
    record = new_record()
    shared.report()
    del record
    gc.collect()
    assert "tile: device_assert failed in `scale`: x is positive" in capsys.readouterr().err


def test_at_the_end_of_a_program() -> None:
    program = f"""
import pytest
from {__name__} import Shared, new_record
shared, record = Shared(pytest.MonkeyPatch()), new_record()
shared.report()
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "device_assert failed in `scale`" in process.stderr and process.returncode == 0
