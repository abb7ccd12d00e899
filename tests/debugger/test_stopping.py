"""Breakpoints: at lines, functions and anywhere; for programs and by conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debugger.programs import CALLS, WHILE
from tests.debugger.sessions import session


def test_the_table_is_pdbs(tmp_path: Path) -> None:
    said = session(
        tmp_path, CALLS, "b", "b 22", "tbreak kernel.py:17, pid == 3", "b scaled", "when pid > 2",
        "disable 1", "ignore 3 2", "c", "b", "q",
    )  # fmt: skip
    assert said.answer("b", 0) == ""
    assert said.answer("b", 1).splitlines() == [
        "Num Type         Disp Enb   Where",
        "1   breakpoint   keep no    at kernel.py:22",
        "2   breakpoint   del  yes   at kernel.py:17",
        "\tstop only if pid == 3",
        "3   breakpoint   keep yes   at scaled",
        "\tignore next 2 hits",
        "4   breakpoint   keep yes   at any line",
        "\tstop only if pid > 2",
        "\tbreakpoint already hit 1 time",
    ]
    assert said.stops == ["15 kernel"]


def test_a_temporary_one_is_gone_once_it_was_hit(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "tbreak 17", "c", "b", "c", "q")
    assert said.answer("c", 0).startswith("Deleted breakpoint 1 at kernel.py:17\n> kernel.py(17)")
    assert said.answer("b") == "" and said.stops == ["17 kernel"]


def test_a_function_stops_at_its_first_line_in_each_of_its_runs(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "b scaled, k > 0", *["c", "p k"] * 2, "c", "q")
    assert said.stops == ["7 scaled"] * 2
    assert said.answers("p k") == ["1", "2"]


def test_the_line_of_a_def_is_its_function(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "b 13", "c", "q")
    assert said.answer("b 13") == "Breakpoint 1 at kernel"
    assert said.stops == ["14 kernel"]


@pytest.mark.parametrize(
    "condition",
    [
        "pid == 2",
        "program_id(0) == 2",
        "tl.program_id(0) == 2 and num_programs(0) == 4",
        "1 < pid < 3",
        "not (pid < 2 or pid > 2)",
        "-pid == -2 and pid % 4 == 2 and (pid | 1) == 3",
        "B * pid == 8",
        "pid << 1 == 4",
        "pid in (2, 9)",
        "i[0] == 8",
        "mask.all() and x_ptr.index == 0 and i.min() == 8",
        "(i == 8).any() if pid else False",
        "any(v == 8 for v in i)",
    ],
)
def test_conditions_choose_programs(tmp_path: Path, condition: str) -> None:
    """Those over scalars are computed for all programs at once, others one by one."""
    said = session(tmp_path, CALLS, f"b 17, {condition}", "c", "p pid", "c", "q")
    assert said.stops == ["17 kernel"]
    assert "[program (2, 0, 0) of grid (4, 1, 1); here are all 4 programs]" in said
    assert said.answer("p pid") == "2"


def test_only_lets_one_program_stop(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "only 3", "b scaled", "c", "p k", "only off", "only", "q")
    assert said.answer("only 3") == "Only programs with program_id(0) == 3 stop at breakpoints"
    assert "[program (3, 0, 0) of grid (4, 1, 1); here are 3 programs" in said
    assert said.answer("only") == "All programs stop at breakpoints"


def test_when_stops_where_a_condition_becomes_true(tmp_path: Path) -> None:
    """Not again at each line where it still is, but again when it was false meanwhile."""
    said = session(tmp_path, WHILE, "only 3", "when n == 17", "c", "p n, steps", "c", "q")
    assert said.answer("p n, steps") == "(17, 3)"
    assert said.answer("c", 1).startswith("[ 0  1  7 16 19]\nThe program finished")
    assert said.stops == ["15 collatz"]


def test_numbers_enable_disable_ignore_and_condition(tmp_path: Path) -> None:
    said = session(
        tmp_path, WHILE, "b 15", "ignore 1 3", "c", "p steps", "condition 1 n == 1", "c", "program",
        "condition 1", "c", "p steps", "disable 1", "enable 1", "cl 1", "c", "q",
    )  # fmt: skip
    assert said.answer("ignore 1 3") == "Will ignore next 3 crossings of breakpoint 1."
    # In the first iteration those with even and with odd numbers are at line 15 together.
    assert said.answer("p steps", 0) == "3"
    assert said.answer("condition 1 n == 1") == "New condition set for breakpoint 1."
    assert said.answer("condition 1") == "Breakpoint 1 is now unconditional."
    assert said.answer("disable 1") == "Disabled breakpoint 1 at kernel.py:15"
    assert said.answer("enable 1") == "Enabled breakpoint 1 at kernel.py:15"
    assert said.answer("cl 1") == "Deleted breakpoint 1 at kernel.py:15"


def test_clear_asks_before_it_deletes_all(tmp_path: Path) -> None:
    said = session(
        tmp_path, CALLS, "b 17", "b 18", "cl", "no", "b", "cl kernel.py:18", "cl", "y", "b", "q"
    )
    assert "Clear all breaks? no\n" in said
    assert "kernel.py:17" in said.answer("b", 0)
    assert said.answer("cl kernel.py:18") == "Deleted breakpoint 2 at kernel.py:18"
    assert said.answer("b", 1) == ""


def test_a_condition_that_fails_stops_and_says_so(tmp_path: Path) -> None:
    said = session(
        tmp_path, CALLS, "b 17, i", "c", "condition 1 nope > 1", "b 18, 1 // (pid - pid)", "c", "q"
    )
    assert said.answer("c", 0).startswith(
        "*** the condition of breakpoint 1: ArgumentValueError: `i` is a tile of shape (4,); say "
        "when it holds: `(i).any()` or `(i).all()`\n> kernel.py(17)"
    )


def test_breakpoints_in_functions_that_do_not_exist_yet_wait(tmp_path: Path) -> None:
    other = tmp_path / "other_functions.py"
    other.write_text(
        "import tile\nimport tile.language as tl\n\n\n@tile.jit\ndef twice(x):\n    return x + x\n"
    )
    code = "from other_functions import twice\n" + CALLS.replace("scaled(x, k)", "twice(x)")
    said = session(tmp_path, code, "b twice", "b other_functions:7", "c", "w", "ll", "c", "q")
    assert said.answer("b twice").endswith(
        "no function `twice` is seen yet; it stops where one is called"
    )
    assert said.answer("b other_functions:7") == "Breakpoint 2 at other_functions.py:7"
    assert "> other_functions.py(7)twice()\n-> return x + x" in said
    assert said.answer("ll").splitlines()[0].strip() == "5  \t@tile.jit"
