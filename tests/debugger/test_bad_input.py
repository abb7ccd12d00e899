"""Typing errors are explained, and nothing is lost by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debugger.programs import CALLS
from tests.debugger.sessions import session
from tile.tools.cli import main

WRONG = {
    "b 500": "*** kernel.py has 27 lines, and no line 500",
    "b 11": "*** no program stops at line 11: it is blank, or a comment (line 10 has `return w`; "
    "line 14 has `pid = tl.program_id(0)`)",
    "b 24": "*** no program stops at line 24: no statement of a function begins there (line 22 has "
    "`tl.store(o_ptr + i, x, mask=mask)`)",
    "b nowhere.py:3": "*** there is no file `nowhere.py`",
    "b kernel.py:x": "*** `x` is not the number of a line",
    "b 17, x >": "*** `x >` is not a condition: invalid syntax",
    "b 1+1": "*** `1+1` is neither a line, nor file:line, nor a function",
    "tbreak": "*** `tbreak` takes a line, file:line or function",
    "when": "*** `when` takes a condition",
    "only (": "*** `(` is not a condition: '(' was never closed",
    "cl 7": "*** there is no breakpoint 7; `b` lists them",
    "cl x": "*** a breakpoint is named by its number, not `x`",
    "cl nowhere:1": "*** there is no breakpoint at nowhere:1",
    "enable": "*** this takes the numbers of breakpoints; `b` lists them",
    "ignore": "*** `ignore` takes the number of a breakpoint, and how often to pass it",
    "ignore 1 x": "*** `ignore` takes the number of a breakpoint, and how often to pass it",
    "condition": "*** `condition` takes the number of a breakpoint, and a condition",
    "program x": "*** a program is named by one to three numbers, as in 3,0, not `x`",
    "p": "*** this takes an expression; `vars` lists the variables",
    "p (": "*** SyntaxError: '(' was never closed",
    "p 1 / 0": "*** ZeroDivisionError: division by zero",
    "p nothing": "*** NameError: name 'nothing' is not defined",
    "p exit(3)": "*** SystemExit: 3",
    "import sys; sys.exit(4)": "*** SystemExit: 4",
    "p (lambda f: f(f))(lambda f: f(f))": "*** RecursionError: maximum recursion depth exceeded",
    "p (_ for _ in ()).throw(MemoryError('much'))": "*** MemoryError: much",
    "p (_ for _ in ()).throw(GeneratorExit('end'))": "*** GeneratorExit: end",
    "p (_ for _ in ()).throw(StopAsyncIteration('end'))": "*** StopAsyncIteration: end",
    "p type('C', (), {'__repr__': lambda self: 1 / 0})()": "*** ZeroDivisionError: division by zero",
    "p {}[1]": "*** KeyError: 1",
    "jump": "*** `jump` is a command of pdb that this debugger does not have",
    "u x": "*** `x` is not a number of calls",
    "unt x": "*** `until` takes the number of a line, not `x`",
    "restart 'open": "*** these are not arguments: No closing quotation",
}
BEFORE = {
    "w": "*** no function is running",
    "a": "*** no function is running",
    "ll": "*** no function is running",
    "vars": "*** the selected frame is not of a kernel",
    "programs": "*** no kernel is running",
    "before": "*** no kernel is running",
    "display x": "*** no function is running",
    "u": "*** Oldest frame",
}
STOPPED = {
    "program 9": "*** there is no program (9, 0, 0) in grid (4, 1, 1)",
    "before 0": "*** `before` takes a number of lines, not `0`",
    "before x": "*** `before` takes a number of lines, not `x`",
    "unt 3": "*** line 3 is not after this one, 17",
    "before 9": "*** the program has begun only 4 lines before",
}


def test_a_mistake_is_said_and_the_session_goes_on(tmp_path: Path) -> None:
    said = session(tmp_path, CALLS, *WRONG, *BEFORE, "b 17", "c", *STOPPED, *WRONG, "p pid", "q")
    for command, answer in {**WRONG, **BEFORE, **STOPPED}.items():
        assert set(said.answers(command)) == {answer}, command
    assert said.answer("p pid") == "0"


def test_a_program_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", str(tmp_path / "none.py")]) == 1
    assert capsys.readouterr().err.startswith(f"error: cannot debug {tmp_path}/none.py: ")
    assert main(["debug", "-m", "no_such_module_at_all"]) == 1
    assert "there is no module 'no_such_module_at_all'" in capsys.readouterr().err
    assert main(["debug", "--sanitize", "nothing", "x.py"]) == 1
    assert "there is no check 'nothing'" in capsys.readouterr().err
