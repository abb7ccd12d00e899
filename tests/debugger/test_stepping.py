"""Stepping: over lines, into functions and out of them, around loops, along one program."""

from __future__ import annotations

from pathlib import Path

from tests.debugger.programs import CALLS, WHILE
from tests.debugger.sessions import session


def test_a_session_prints_what_pdb_prints(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "b 17", "c", "p x_ptr", "", "w", "q")
    assert said == (
        "kernel.py has not begun: `c` runs it to a breakpoint or a fault, `s` to\n"
        "the first line of a kernel; `help` helps\n"
        "(tile) b 17\n"
        "Breakpoint 1 at kernel.py:17\n"
        "(tile) c\n"
        "> kernel.py(17)kernel()\n"
        "-> x = tl.load(x_ptr + i, mask=mask, other=0.0)\n"
        "[program (0, 0, 0) of grid (4, 1, 1); here are all 4 programs]\n"
        "(tile) p x_ptr\n"
        "x_ptr + 0\n"
        "(tile) \n"
        "x_ptr + 0\n"
        "(tile) w\n"
        "  kernel.py(26)<module>()\n"
        "-> kernel[(4,)](x, o, 14, B=4)\n"
        "> kernel.py(17)kernel()\n"
        "-> x = tl.load(x_ptr + i, mask=mask, other=0.0)\n"
        "(tile) q\n"
    )


def test_next_steps_over_functions_and_through_iterations(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "program 2", "s", *["n"] * 12, "q")
    lines = [int(place.split()[0]) for place in said.stops]
    assert lines == [14, 15, 16, 17, 18, 19, 20, 21, 20, 21, 20, 22, 22]
    assert "--Return--\n> kernel.py(22)kernel()->None" in said


def test_step_goes_into_functions_and_return_out_of_them(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        CALLS,
        "program 3",
        "b 21, k == 2",
        "c",
        "s",
        "s",
        "a",
        "s",
        "s",
        "s",
        "s",
        "s",
        "q",
    )
    assert said.stops == [
        "21 kernel", "6 scaled", "7 scaled", "8 scaled", "9 scaled", "10 scaled", "10 scaled",
        "20 kernel",
    ]  # fmt: skip
    assert said.answer("s", 0).startswith("--Call--\n> kernel.py(6)scaled()")
    assert said.answer("a") == "v = <float32, shape (4,)>\nk = 2"
    assert said.answer("s", 5).startswith("--Return--\n> kernel.py(10)scaled()-><float32, shape")


def test_return_stops_where_the_function_returns(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "tbreak scaled", "c", "r", "p w", "n", "r", "q")
    assert said.stops == ["7 scaled", "10 scaled", "20 kernel", "22 kernel"]
    assert said.answer("r", 1).startswith("--Return--")


def test_until_leaves_loops(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "program 3", "b 21", "c", "cl 1", "unt", "unt 22", "q")
    assert said.stops == ["21 kernel", "22 kernel"]
    assert said.answer("unt 22") == "*** line 22 is not after this one, 22"


def test_until_takes_lines_behind_this_one(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "b 17", "c", "unt 17", "unt x", "unt 20", "q")
    assert said.answer("unt 17") == "*** line 17 is not after this one, 17"
    assert said.answer("unt x") == "*** `until` takes the number of a line, not `x`"
    assert said.stops == ["17 kernel", "20 kernel"]


def test_one_program_is_followed_through_a_while(tmp_path: Path) -> None:
    """3, 10, 5, 16, 8, 4, 2, 1: the others take other ways meanwhile, and are waited for."""
    said = session(tmp_path, WHILE, "program 2", "b 10", "c", "cl 1", *["n"] * 24, "p n", "q")
    lines = [int(place.split()[0]) for place in said.stops][1:]
    odd, even = [11, 14, 15, 10], [11, 12, 15, 10]
    turns = [10, *odd, *even, *odd, *even, *even, *even][1:]
    assert lines == turns
    assert said.answer("p n") == "2"


def test_after_its_kernel_a_program_is_followed_into_the_next_launch(tmp_path: Path) -> None:
    code = CALLS + "\nkernel[(2,)](x, o, 14, B=4)\n"
    said = session(tmp_path, code, "b 22", "c", "cl 1", "n", "n", "w", "q")
    assert said.stops[:3] == ["22 kernel", "22 kernel", "14 kernel"]
    assert "kernel.py(29)<module>()" in said.answer("w")


def test_a_launch_that_fails_takes_along_whom_the_user_followed(tmp_path: Path) -> None:
    """No program of the next launch is taken for it."""
    code = """
@tile.jit
def fails(x_ptr):
    pid = tl.program_id(0)
    tl.device_assert(pid != 1)
    tl.store(x_ptr + pid, 1.0)

x = np.zeros(4, np.float32)
for grid in (2, 1):
    try:
        fails[(grid,)](x)
    except tile.errors.DeviceAssertionError:
        print("taken")
"""
    said = session(
        tmp_path, code, "b 8", "c", "cl 1", "n", "n", "p num_programs(0)", "n", "n", "n", "q"
    )
    assert said.stops == ["8 fails", "8 fails", "7 fails", "8 fails", "9 fails", "9 fails"]
    assert said.answer("p num_programs(0)") == "1"


def test_the_program_runs_to_its_end_and_begins_again(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "c", "b 14", "c", "q")
    assert said.answer("c", 0).splitlines()[:2] == [
        "sum 8.0",
        "The program finished and will be restarted",
    ]
    assert said.stops == ["14 kernel"]


def test_restart_takes_arguments(tmp_path: Path) -> None:
    code = "import sys\nprint(sys.argv[1:], __name__)\n" + CALLS
    said = session(tmp_path, code, "b 17", "c", "restart 1 'two words'", "c", "q", arguments=["0"])
    assert "['0'] __main__" in said
    assert "Restarting" in said and "['1', 'two words'] __main__" in said
    assert said.stops == ["17 kernel"] * 2


def test_commands_may_come_from_the_command_line_and_two_on_a_line(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "n;;n", "q", first=["b 17", "c"])
    assert said.stops == ["17 kernel", "18 kernel", "20 kernel"]


def test_the_end_of_the_input_leaves(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, "b 17", "c")
    assert said.endswith("(tile) \n")
