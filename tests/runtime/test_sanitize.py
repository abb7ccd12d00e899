"""Selection of checks: by environment, `with`, and launch; reports that collect faults."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.checks import ALL, ALWAYS, Check, parse_checks
from tile.config import config
from tile.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    DataRaceError,
    OutOfBoundsError,
    UndefinedValueError,
)
from tile.faults import MAX_FAULTS


@tile.jit
def everybody(o_ptr):
    tl.store(o_ptr, 1)


@tile.jit
def copy(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x)


def race(**options):
    everybody[(4,)](np.zeros(1, np.int32), **options)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("all", ALL),
        ("none", frozenset()),
        ("", frozenset()),
        ("race, undef", {Check.RACE, Check.UNDEF}),
        (("overflow", "assume,bounds"), {Check.OVERFLOW, Check.ASSUME, Check.BOUNDS}),
    ],
)
def test_checks_are_chosen_by_name(text, chosen) -> None:
    assert parse_checks(text) == chosen


def test_nothing_but_bounds_is_checked_unless_asked() -> None:
    race()
    with pytest.raises(OutOfBoundsError), tile.sanitize("none"):
        copy[(1,)](np.zeros(4, np.float32), np.zeros(8, np.float32), 8, B=8)


def test_the_environment_chooses(monkeypatch) -> None:
    monkeypatch.setenv("TILE_SANITIZE", "undef,race")
    with pytest.raises(DataRaceError):
        race()
    with tile.sanitize("bounds"):
        race()
    monkeypatch.setenv("TILE_SANITIZE", "races")
    with pytest.raises(ArgumentValueError, match=r"TILE_SANITIZE='races'.*no check 'races'.*undef"):
        race()


def test_with_chooses_and_ends() -> None:
    with tile.sanitize("race"), pytest.raises(DataRaceError):
        race()
    race()


def test_a_launch_chooses() -> None:
    with pytest.raises(DataRaceError):
        race(sanitize="race")
    with pytest.raises(DataRaceError):
        race(sanitize=("undef", "race"))
    with tile.sanitize():
        race(sanitize="undef")
    race()


@pytest.mark.parametrize("wrong", ["raec", ("race", "raec"), "all,everything"])
def test_names_that_do_not_exist_are_refused(wrong) -> None:
    with pytest.raises(ArgumentValueError, match="there is no check"), tile.sanitize(wrong):
        pass
    with pytest.raises(ArgumentValueError, match="the option sanitize: there is no check"):
        race(sanitize=wrong)


@pytest.mark.parametrize("wrong", [7, [7], None])
def test_what_is_no_name_is_refused(wrong) -> None:
    with pytest.raises(ArgumentTypeError), tile.sanitize(wrong):
        pass
    if wrong is not None:
        with pytest.raises(ArgumentError):
            race(sanitize=wrong)


def test_a_report_has_all_faults_and_the_run_ends() -> None:
    x, out = np.ones(30, np.float32), np.zeros(28, np.float32)
    with tile.sanitize(collect=True) as report:
        assert not report
        race()
        copy[(4,)](x, out, 30, B=8)
    assert report
    assert len(report) == 3
    kinds = [group.check for group in report.groups]
    assert kinds == [Check.RACE, Check.BOUNDS, Check.UNDEF]
    bounds, undef = report.groups[1].faults[0], report.groups[2].faults[0]
    assert undef.count == 2
    assert undef.program == (3, 0, 0)
    assert undef.element == (6,)
    assert bounds.count == 4  # two of which are undefined, too
    assert bounds.place is not None
    assert (bounds.place.argument, bounds.place.element) == ("o_ptr", 28)
    # What was not wrong happened.
    np.testing.assert_array_equal(out, 1)


def test_a_store_that_raises_writes_nothing() -> None:
    x, out = np.ones(30, np.float32), np.zeros(28, np.float32)
    with tile.sanitize(), pytest.raises(OutOfBoundsError) as caught:
        copy[(1,)](x, out, 30, B=32)
    assert [note for note in caught.value.notes if note.startswith("also undef: ")]
    np.testing.assert_array_equal(out, 0)


@tile.jit
def promised(n_ptr, o_ptr, m):
    pid = tl.program_id(0)
    n = tl.load(n_ptr + pid, mask=pid < m)
    tl.assume(n > 4)
    tl.store(o_ptr + pid, n, mask=pid < m)


def test_an_undefined_assumption_hides_no_false_one() -> None:
    with tile.sanitize(collect=True) as report:
        promised[(4,)](np.array([5, 3, 5], np.int32), np.zeros(4, np.int32), 3)
    kinds = [(group.check, group.faults[0].program) for group in report.groups]
    assert kinds == [(Check.UNDEF, (3, 0, 0)), (Check.ASSUME, (1, 0, 0))]


def test_a_report_as_text_and_as_json() -> None:
    with tile.sanitize(collect=True) as report:
        race()
    text = str(report)
    assert "1 fault at 1 place" in text
    assert "race: `everybody` writes `o_ptr[0]`" in text
    assert "tl.store(o_ptr, 1)" in text
    read = json.loads(report.to_json(indent=1))
    (group,) = read["groups"]
    (fault,) = group["faults"]
    assert read["faults"] == group["executions"] == 1
    assert fault["check"] == "race"
    assert fault["program"] == [0, 0, 0]
    assert fault["other"]["program"] == [3, 0, 0]
    assert fault["place"] == {
        "argument": "o_ptr",
        "element": 0,
        "index": [0],
        "shape": [1],
        "dtype": "int32",
    }
    assert fault["loc"]["line"] == group["loc"]["line"]
    assert str(tile.faults.FaultLog()) == "nothing was checked\nno kernel was launched"


@tile.jit
def often(o_ptr, n):
    for _ in range(n):
        tl.store(o_ptr + 1, 1)


def test_a_report_of_another_format(tmp_path) -> None:
    with tile.sanitize(collect=True) as report:
        pass
    with pytest.raises(ArgumentValueError, match=r"is its path's suffix, one of .*; '.*\.pdf' has"):
        report.save(tmp_path / "report.pdf")


def test_a_report_counts_what_it_does_not_keep() -> None:
    with tile.sanitize(collect=True) as report:
        often[(2,)](np.zeros(1, np.int32), MAX_FAULTS + 20)
    (group,) = report.groups
    assert group.executions == 2 * (MAX_FAULTS + 20)
    assert len(group.faults) == MAX_FAULTS


def test_an_error_has_its_fault_as_data() -> None:
    with tile.sanitize(), pytest.raises(UndefinedValueError) as caught:
        copy[(4,)](np.ones(30, np.float32), np.zeros(32, np.float32), 30, B=8)
    fault = caught.value.fault
    assert fault is not None
    assert fault.loc == caught.value.loc
    assert fault.cause is not None
    assert fault.cause.line == fault.loc.line - 1
    with pytest.raises(OutOfBoundsError) as bounds:
        copy[(4,)](np.ones(30, np.float32), np.zeros(32, np.float32), 32, B=8)
    assert bounds.value.fault is not None
    assert bounds.value.fault.place.element == 30


def test_settings_of_a_thread_are_its_own() -> None:
    with tile.sanitize("race"):
        assert config.sanitize == {Check.RACE}
    assert config.sanitize == ALWAYS
