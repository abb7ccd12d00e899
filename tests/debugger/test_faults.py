"""At a fault, and back to before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debugger.programs import CALLS, FAULT, WHILE
from tests.debugger.sessions import session
from tile.checks import ALWAYS


def test_programs_stand_still_at_a_fault(tmp_path: Path) -> None:
    said = session(tmp_path, FAULT, "c", "p q", "p i", "u", "p pid", "w", "d", "c", "q")
    assert said.answer("c", 0).splitlines() == [
        "OutOfBoundsError: `kernel` reads `x_ptr` at element 20, 1 past its end",
        "  at kernel.py:8:12, in inner",
        "    8 |     return tl.load(q)",
        "      |            ^^^^^^^^^^",
        "  note: `x_ptr` is a float32 array of shape (20,): elements 0 to 19",
        "  note: element [2] of the tile, in program (2, 0, 0) of grid (4, 1, 1); 2 of 4 active "
        "elements of this access are out of bounds",
        "Post mortem: the program stands at its fault. `before` goes back to before",
        "it; `c` goes on, and the launch raises the error.",
        "> kernel.py(8)inner()",
        "-> return tl.load(q)",
        "[program (2, 0, 0) of grid (4, 1, 1); here are all 4 programs]",
    ]
    assert said.answer("p q").splitlines()[1:] == [
        "x_ptr + [16  18  20! 22!]",
        "! is outside `x_ptr`, float32, shape (20,)",
    ]
    assert said.answer("p i").endswith("[ 8  9 10 11]")
    assert said.answer("p pid") == "2"
    assert said.answer("c", 1) == (
        "The program ended with the OutOfBoundsError above, and will be restarted"
    )
    assert "never printed" not in said


def test_before_a_fault_nothing_of_its_line_was_done(tmp_path: Path) -> None:
    """Arrays hold what they held then: the atomic additions of all programs, once each."""
    said = session(
        tmp_path, FAULT, "c", "before", "p q", "u", "p o_ptr.array[0]", "before 4", "p o_ptr.array[0]",
        "w", "n", "p o_ptr.array[0]", "n", "c", "q",
    )  # fmt: skip
    assert said.answer("before").splitlines()[0] == "> kernel.py(8)inner()"
    assert said.answers("p o_ptr.array[0]") == ["4.0", "0.0", "4.0"]
    # Back over the lines of `inner`, to the kernel's atomic operation.
    assert said.answer("before 4").splitlines()[0] == "> kernel.py(14)kernel()"
    assert "OutOfBoundsError" in said.answer("n", 1) + said.answer("c", 1)


def test_before_goes_back_from_anywhere_and_prints_nothing_twice(tmp_path: Path) -> None:
    code = CALLS.replace("    mask = i < n\n", "    mask = i < n\n    print('here', pid)\n")
    said = session(
        tmp_path,
        code,
        "program 3",
        "b 23",
        "c",
        "before",
        "before 2",
        "p k",
        "before 99",
        "n",
        "cl 1",
        "c",
        "q",
    )
    assert said.stops[:4] == ["23 kernel", "21 kernel", "10 scaled", "10 scaled"]
    assert said.answer("before 99").startswith("*** the program has begun only ")
    assert said.count("pid (0, 0, 0) here 0") == 1


def test_a_conditional_fault_of_one_way(tmp_path: Path) -> None:
    code = FAULT.replace(
        "    x = inner(x_ptr, i)\n",
        "    x = i * 1.0\n    if pid == 3:\n        x = inner(x_ptr, i)\n",
    )
    said = session(tmp_path, code, "c", "programs", "before", "before 2", "q")
    assert "[program (3, 0, 0) of grid (4, 1, 1); it is here alone]" in said
    assert said.answer("programs").splitlines()[1:] == [
        "> program (3, 0, 0): at kernel.py:8",
        "  3 programs: (0, 0, 0) to (2, 0, 0): at kernel.py:16",
    ]


@pytest.mark.parametrize(
    ("statement", "error", "program"),
    [
        ("tl.store(o_ptr, pid)", "DataRaceError", None),
        (
            "tl.store(o_ptr + pid, tl.sum(tl.load(o_ptr + i, mask=i < 2), 0))",
            "UndefinedValueError",
            0,
        ),
        ("tl.store(o_ptr + pid * (pid + 46341) * (pid + 46341) * 0, 1)", "IntegerOverflowError", 1),
        ("tl.store(o_ptr + tl.multiple_of(pid * 2, 4), 1)", "BrokenAssumptionError", 1),
        ("tl.device_assert(i != 6, 'no six')", "DeviceAssertionError", 1),
        ("while tl.load(o_ptr + pid) == 0:\n        pass", "DeadlockError", 0),
        ("for k in range(0, 4, pid - 2):\n        tl.store(o_ptr + i, k)", "ExecutionError", 2),
    ],
)
def test_every_kind_of_fault_stops(
    tmp_path: Path, statement: str, error: str, program: int | None
) -> None:
    code = f"""
@tile.jit
def kernel(o_ptr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    {statement}

kernel[(4,)](np.zeros(16, np.int32), B=4)
"""
    said = session(tmp_path, code, "c", "p pid", "before", "p i", "c", "c", "q")
    assert f"(tile) c\n{error}: " in said
    if program is not None:
        assert said.answer("p pid") == str(program)
    assert "> kernel.py(9)kernel()" in said.answer("c")
    last = 10 if error == "DeadlockError" else 9
    assert f"> kernel.py({last})kernel()" in said.answer("before")
    assert f"The program ended with the {error} above" in said.answer("c", 2)


def test_the_program_may_take_the_error(tmp_path: Path) -> None:
    code = FAULT.replace(
        "kernel[(4,)](x, o, B=4)",
        "try:\n    kernel[(4,)](x, o, B=4)\nexcept tile.errors.OutOfBoundsError:\n    print('taken')",
    )
    said = session(tmp_path, code, "c", "c", "q")
    assert said.answer("c", 1).splitlines()[:3] == [
        "taken", "never printed", "The program finished and will be restarted",
    ]  # fmt: skip


def test_only_the_checks_that_are_asked_for(tmp_path: Path) -> None:
    race = "\n@tile.jit\ndef racing(o_ptr):\n    tl.store(o_ptr, tl.program_id(0))\n\nracing[(4,)](np.zeros(1, np.int32))\n"
    assert "DataRaceError" in session(tmp_path, race, "c", "q")
    assert "DataRaceError" not in session(tmp_path, race, "c", "q", checks=ALWAYS)


def test_a_report_that_collects_faults_takes_them(tmp_path: Path) -> None:
    code = FAULT.replace(
        "kernel[(4,)](x, o, B=4)",
        "with tile.sanitize(collect=True) as report:\n    kernel[(4,)](x, o, B=4)\nprint(len(report))",
    )
    said = session(tmp_path, code, "b 8", "c", "n", "before", "c", "q")
    assert said.answer("before") == "*** a run that collects its faults is not run again"
    assert "never printed" in said.answer("c", 1)


def test_uninitialized_arrays_are_that_again(tmp_path: Path) -> None:
    code = """
@tile.jit
def kernel(e_ptr, o_ptr):
    tl.store(e_ptr, 1.0)
    x = tl.load(e_ptr)
    y = tl.load(e_ptr + 1)
    tl.store(o_ptr, x + y)

kernel[(1,)](tile.empty(4), np.zeros(1, np.float32))
"""
    said = session(
        tmp_path, code, "c", "p x", "p y", "before 4", "n", "n", "n", "p x", "p y", "n", "q"
    )
    assert said.answers("p x") == ["1.0", "1.0"]
    assert said.answer("p y", 1).startswith("--\n-- is undefined: ")
    assert said.stops[1] == "7 kernel"


def test_the_program_fails_in_python(tmp_path: Path) -> None:
    code = WHILE.replace("print(o)", "def fails(n):\n    return 1 // n\n\nfails(len(o) - 5)")
    said = session(tmp_path, code, "c", "p n", "u", "p o", "n", "b 16", "c", "q")
    assert said.answer("c", 0).splitlines() == [
        "Traceback (most recent call last):",
        '  File "kernel.py", line 24, in <module>',
        "    fails(len(o) - 5)",
        '  File "kernel.py", line 22, in fails',
        "    return 1 // n",
        "ZeroDivisionError: integer division or modulo by zero",
        "Uncaught exception: the program has ended. You can inspect Python's frames;",
        "`c` or `restart` runs the program again.",
        "> kernel.py(22)fails()",
        "-> return 1 // n",
    ]
    assert said.answer("p n") == "0"
    assert said.answer("p o").startswith("array([ 0,  1,  7, 16, 19]")
    assert said.stops[-1] == "16 collatz"


def test_a_kernel_that_does_not_compile_says_so(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS.replace("i < n", "i < m"), "c", "w", "q")
    assert "CompilationError: `m` is not defined" in said.answer("c")


def test_exit_and_syntax_errors_end_the_program(tmp_path: Path) -> None:
    said = session(tmp_path, "raise SystemExit(3)\n", "c", "q")
    assert said.answer("c").startswith("The program exited via sys.exit(). Exit status: 3. It")
    said = session(tmp_path, "x = = 1\n", "c", "p 1", "w", "q")
    assert "SyntaxError: invalid syntax" in said.answer("c")
    assert said.answer("w") == "*** no function is running"


REGION = """\
import numpy as np
import tile
import tile.language as tl


@tile.jit
def ratio(a, b):
    return tl.where(a > b, a + b, b // tl.maximum(a, 1))


@tile.jit
def combine(a, b):
    c = ratio(a, b)
    if c > 4:
        d = tl.multiple_of(c, 1)
    else:
        d = c + b // tl.maximum(b, 1)
    return d


@tile.jit
def kernel(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    s = tl.associative_scan(x, 0, combine)
    tl.store(o_ptr + i, s)


kernel[(1,)](np.arange(1, 7, dtype=np.int32), np.zeros(8, np.int32), 6, B=8)
"""


def test_functions_that_the_function_of_a_scan_calls(tmp_path: Path) -> None:
    """They are no part of the region, as they are where the program is optimized."""
    said = session(tmp_path, REGION, "c", "p s", "q")
    assert "UndefinedValueError: `kernel` writes a value that is undefined" in said.answer("c")
    assert "(2 of 8 elements)" in said.answer("p s")
