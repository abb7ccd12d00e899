"""The selected program, and the positions of all programs."""

from __future__ import annotations

from pathlib import Path

from tests.debugger.programs import CALLS, WHILE
from tests.debugger.sessions import session
from tile.config import config

GRID = """
@tile.jit
def kernel(o_ptr):
    a = tl.program_id(0)
    b = tl.program_id(1)
    c = tl.program_id(2)
    tl.store(o_ptr + a + 2 * b + 6 * c, a + 10 * b + 100 * c)

kernel[(2, 3, 2)](np.zeros(12, np.int32))
"""


def test_any_program_of_a_grid_is_looked_at(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        GRID,
        "b 10",
        "c",
        "program",
        "program 1,2",
        "p a, b, c",
        "program (0, 1, 1)",
        "p a, b, c",
        "q",
    )
    assert (
        said.answer("program") == "[program (0, 0, 0) of grid (2, 3, 2); here are all 12 programs]"
    )
    assert said.answers("p a, b, c") == ["(1, 2, 0)", "(0, 1, 1)"]


def test_a_program_that_is_chosen_before_is_looked_at_where_it_comes(tmp_path: Path) -> None:
    said = session(tmp_path, GRID, "program 1,1,1", "b 10", "c", "p a + 10 * b + 100 * c", "q")
    assert said.answer("program 1,1,1") == "program (1, 1, 1) will be selected when it runs"
    assert said.answer("p a + 10 * b + 100 * c") == "111"


def test_programs_that_went_another_way_keep_their_variables(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        WHILE,
        "b 14, program_id(0) == 2",
        "c",
        "programs",
        "program 1",
        "p n",
        "program 3",
        "p n",
        "n",
        "p n",
        "q",
    )
    assert said.answer("programs").splitlines() == [
        "programs of grid (5, 1, 1):",
        "> 3 programs: (2, 0, 0) to (4, 0, 0): at kernel.py:14",
        "  program (0, 0, 0): wait for the others, at the end of kernel.py:10",
        "  program (1, 0, 0): wait for the others, at the end of kernel.py:11",
    ]
    assert said.answer("program 1").endswith(
        "[program (1, 0, 0) of grid (5, 1, 1); elsewhere: wait for the others, at the end of "
        "kernel.py:11]"
    )
    assert said.answers("p n") == ["2", "7", "22"]


def test_programs_that_start_in_another_order_are_distinguished(tmp_path: Path) -> None:
    with config.scope(chunk_bytes=1, interp_order="reverse"):
        said = session(tmp_path, CALLS, "b 17, pid == 2", "c", "programs", "q")
    assert said.answer("programs").splitlines()[1:] == [
        "> program (2, 0, 0): at kernel.py:17",
        "  program (3, 0, 0): ended",
        "  2 programs: (0, 0, 0) to (1, 0, 0): not started",
    ]


def test_chunks_of_a_grid_run_one_after_the_other(tmp_path: Path) -> None:
    with config.scope(chunk_bytes=1):
        said = session(
            tmp_path, CALLS, "b 17, pid == 1", "c", "programs", "program 0", "program 3", "q"
        )
    assert said.answer("programs").splitlines()[1:] == [
        "> program (1, 0, 0): at kernel.py:17",
        "  program (0, 0, 0): ended",
        "  2 programs: (2, 0, 0) to (3, 0, 0): not started",
    ]
    assert said.answer("program 0") == "*** program (0, 0, 0) has ended: it has no variables now"
    assert (
        said.answer("program 3") == "*** program (3, 0, 0) has not started: it has no variables now"
    )


def test_programs_that_wait_for_memory(tmp_path: Path) -> None:
    code = """
@tile.jit
def kernel(flag_ptr):
    pid = tl.program_id(0)
    if pid == 0:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
    else:
        here = pid
        tl.atomic_xchg(flag_ptr, here)

kernel[(2,)](np.zeros(1, np.int32))
"""
    said = session(tmp_path, code, "b 13", "c", "programs", "program 0", "c", "q")
    assert said.answer("programs").splitlines()[1:] == [
        "> program (1, 0, 0): at kernel.py:13",
        "  program (0, 0, 0): wait for a change of memory, at kernel.py:9",
    ]
    assert "The program finished" in said.answer("c", 1)
