"""Diagnostics that a launch does not support: errors, warnings, and entries of reports."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.test_fast_path import Noting, new_launcher, noting, three
from tile.errors import OutOfBoundsError, UnsupportedError
from tile.runtime import launch_diagnostics
from tile.tools.cli import main

THREADS = "interp:generic"
NEEDS = {THREADS: "numpy", "opencl": "pyopencl"}

__all__ = ["noting"]  # a fixture


@tile.jit
def store_one(o_ptr):
    tl.store(o_ptr, 1)


@tile.jit
def beyond(o_ptr):
    tl.store(o_ptr + 5, 1)


@pytest.fixture(autouse=True)
def _new_warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("TILE_BACKEND", "TILE_INTERP_LEVEL", "TILE_SANITIZE"):
        monkeypatch.delenv(name, raising=False)
    yield
    launch_diagnostics._warn_unchecked.cache_clear()
    launch_diagnostics._warn_ignored.cache_clear()


@pytest.fixture(params=NEEDS)
def elsewhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """A backend, or a level of one, whose launches do not do all checks."""
    pytest.importorskip(NEEDS[request.param])
    with tile.backend(request.param):
        try:
            launch()
        except tile.errors.BackendError as error:
            pytest.skip(error.message)
        yield request.param


def launch(kernel: Any = store_one, **options: Any) -> None:
    kernel[(4,)](np.zeros(4, np.int32), **options)


@pytest.mark.parametrize("arguments", [{}, {"collect": True}, {"checks": "race"}])
def test_checks_of_a_block_are_refused(elsewhere: str, arguments: dict[str, Any]) -> None:
    with (
        pytest.raises(UnsupportedError, match=r"asks for checks that .* does not do: .*race"),
        tile.sanitize(**arguments) as report,
    ):
        launch()
    assert str(report).startswith("nothing was checked\nnot checked: 1 launch of `store_one` on ")
    assert report.as_dict()["coverage"][0]["checks"] == []
    launch()


def test_a_launch_is_refused_before_it_runs(elsewhere: str) -> None:
    out = np.zeros(1, np.int32)
    with pytest.raises(UnsupportedError), tile.sanitize():
        store_one[(1,)](out)
    assert out[0] == 0


def test_checks_of_the_environment_are_warned_of_once(
    elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_SANITIZE", "race,undef")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        launch()
        launch()
    (warning,) = caught
    assert "does not do: race, undef. Launches there are not checked" in str(warning.message)


def test_a_report_says_that_nothing_was_checked(elsewhere: str) -> None:
    with tile.sanitize("none", collect=True) as report:
        launch()
    done = "bounds, deadlock" if elsewhere == THREADS else ""
    assert str(report).startswith("no faults" if done else "nothing was checked\nnot checked: 1 ")


def test_a_report_says_which_launches_were_not_checked(elsewhere: str) -> None:
    with tile.sanitize(collect=True) as report:
        with pytest.raises(UnsupportedError):
            launch()
        with tile.backend("interp"):
            store_one[(1,)](np.zeros(1, np.int32))
    first, checked, unchecked = str(report).splitlines()
    assert first == "no faults, but not all was checked"
    assert checked == (
        "checked for bounds, race, undef, overflow, assume, deadlock: 1 launch of `store_one` on "
        "interp"
    )
    assert unchecked.startswith("not checked: 1 launch of `store_one` on ")
    with tile.sanitize(collect=True) as report:
        with pytest.raises(UnsupportedError):
            launch()
        with tile.backend("interp"):
            launch()
    assert str(report).startswith("1 fault at 1 place\n\nrace: ")
    assert str(report).splitlines()[-1].startswith("not checked: 1 launch of `store_one` on ")


def test_checks_that_threads_do_are_done() -> None:
    with tile.backend(THREADS):
        with tile.sanitize("bounds,deadlock") as report, pytest.raises(OutOfBoundsError):
            launch(beyond)
        with pytest.raises(OutOfBoundsError):
            launch(beyond, sanitize="bounds")
        with pytest.raises(UnsupportedError, match="does not do: race; "):
            launch(beyond, sanitize="race,bounds")
        with tile.sanitize("bounds"):
            launch()
        with pytest.raises(UnsupportedError, match="raised and not collected in a report"):
            with tile.sanitize("bounds", collect=True):
                launch(beyond)
    assert [group.executions for group in report.groups] == [1]
    with tile.sanitize("bounds") as report, pytest.raises(OutOfBoundsError):
        launch(beyond)
    assert len(report) == 1


def test_repeated_launches_are_refused_too(noting: Noting, monkeypatch: Any) -> None:
    kernel, arrays = new_launcher(), three()
    for _ in range(2):
        kernel[1,](*arrays, 100, BLOCK=32)
    assert len(noting.repeats) == 1
    for collect in (False, True):
        with pytest.raises(UnsupportedError), tile.sanitize("race", collect=collect):
            kernel[1,](*arrays, 100, BLOCK=32)
    with tile.sanitize("none") as report:
        kernel[1,](*arrays, 100, BLOCK=32)
    assert str(report).startswith("nothing was checked\nnot checked: 1 launch of `add` on ")
    assert len(noting.repeats) == 1
    monkeypatch.setenv("TILE_SANITIZE", "all")
    with pytest.warns(RuntimeWarning, match="TILE_SANITIZE asks for checks"):
        kernel[1,](*arrays, 100, BLOCK=32)


@pytest.mark.parametrize(
    ("target", "variable", "value", "warned"),
    [
        ("opencl", "TILE_INTERP_ORDER", "reverse", True),
        ("opencl", "TILE_INTERP_CHUNK", "64", True),
        ("opencl", "TILE_INTERP_LEVEL", "thread", True),
        ("interp", "TILE_INTERP_TARGET", "mma", True),
        ("interp", "TILE_INTERP_RACES", "1", True),
        ("interp", "TILE_INTERP_ORDER", "3", False),
        (THREADS, "TILE_INTERP_ORDER", "reverse", False),
        (THREADS, "TILE_INTERP_CHUNK", "64", False),
        (THREADS, "TILE_INTERP_RACES", "1", False),
    ],
)
def test_settings_without_effect_are_warned_of_once(
    target: str, variable: str, value: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "opencl":
        pytest.importorskip("pyopencl")
    with warnings.catch_warnings(record=True) as caught, tile.backend(target):
        warnings.simplefilter("always")
        try:
            launch()
        except tile.errors.BackendError as error:
            pytest.skip(error.message)
        monkeypatch.setenv(variable, value)
        launch()
        launch()
    assert [f"{variable} has no effect on" in str(w.message) for w in caught] == ([True] * warned)


@tile.jit
def note_order(order_ptr, count_ptr):
    tl.store(order_ptr + tl.atomic_add(count_ptr, 1), tl.program_id(0))


@pytest.mark.parametrize("order", ["reverse", "0", "1"])
@pytest.mark.parametrize("programs", [1, 2, 50])
def test_threads_follow_an_order(
    order: str, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_INTERP_ORDER", order)
    out = np.zeros(programs, np.int32)
    with tile.backend(THREADS):
        note_order[(programs,)](out, np.zeros(1, np.int32))
    assert sorted(out) == list(range(programs))
    if programs > 2 or (order == "reverse" and programs > 1):
        assert list(out) != list(range(programs))


def test_traces_record_or_refuse_all_launches() -> None:
    compiled = tile.compile(store_one, {"o_ptr": "*i32"}, target=THREADS)
    with tile.trace() as trace:
        with tile.backend(THREADS):
            launch()
        with pytest.raises(UnsupportedError, match=r"`store_one` was compiled for interp:generic"):
            compiled[(1,)](np.zeros(1, np.int32))
    assert trace.launches == 1


PROGRAM = """\
import threading
import numpy as np
import tile
import tile.language as tl


@tile.jit
def last_wins(o_ptr):
    tl.store(o_ptr, tl.program_id(0))


def launch():
    last_wins[(4,)](np.zeros(1, np.int32))


def compiled():
    kernel = tile.compile(last_wins, {"o_ptr": "*i32"}, target="interp")
    kernel[(4,)](np.zeros(1, np.int32))

"""


@pytest.mark.parametrize("body", ["launch()", "compiled()"])
def test_a_checked_program_cannot_leave_the_interpreter(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"{PROGRAM}with tile.backend('{THREADS}'):\n    {body}\n")
    assert main(["check", str(path)]) == 1
    assert "race: `last_wins` writes `o_ptr[0]`" in capsys.readouterr().out


def test_launches_of_other_threads_are_not_called_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"{PROGRAM}one = threading.Thread(target=launch)\none.start()\none.join()\n")
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        "not checked: 1 launch of `last_wins` on interp in another thread\n\nnothing was checked\n"
    )


def test_a_block_does_not_count_other_threads() -> None:
    with tile.sanitize(collect=True) as report:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    assert str(report) == "nothing was checked\nno kernel was launched"
