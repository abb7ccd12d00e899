"""At a real terminal: `tile debug`, and `breakpoint()` in a program that runs by itself."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.debugger.programs import CALLS, WHILE
from tests.debugger.sessions import HEAD

PROMPT = "(tile) "
STOPS = CALLS.replace("    if pid > 1:\n", "    if pid > 1:\n        breakpoint()\n")


class Terminal:
    """A program at a pseudo-terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master

    def until(self, text: str, seconds: float = 60) -> str:
        """Return what is printed up to and including a text."""
        seen, end = "", time.monotonic() + seconds
        while text not in seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"`{text}` did not come: {seen}"
            try:
                part = os.read(self.master, 4096)
            except OSError:  # Linux's way to say that nobody is at the other end
                part = b""
            assert part, f"the program ended before `{text}`: {seen}"
            seen += part.decode().replace("\r\n", "\n")
        return seen

    def type(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def ask(self, line: str) -> str:
        """Return the answer to a line."""
        self.type(line)
        return self.until(PROMPT).partition("\n")[2].removesuffix(PROMPT).rstrip("\n")


@contextmanager
def terminal(folder: Path, code: str, *command: str, **variables: str) -> Iterator[Terminal]:
    """Python with these arguments in a folder where `kernel.py` is a program."""
    (folder / "kernel.py").write_text(HEAD + code.lstrip("\n"), encoding="utf-8")
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("TILE_", "PYTHONBREAK"))
    }
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**environment, "TERM": "dumb", "TILE_CACHE": "0", **variables},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


DEBUG = ("-m", "tile", "debug", "kernel.py")


def test_tile_debug_at_a_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, CALLS, *DEBUG) as screen:
        screen.until(PROMPT)
        assert screen.ask("b 17, pid == 2") == "Breakpoint 1 at kernel.py:17"
        assert screen.ask("c").splitlines()[0] == "> kernel.py(17)kernel()"
        assert screen.ask("p i") == "int32, shape (4,)\n[ 8  9 10 11]"
        assert screen.ask("n").splitlines()[0] == "> kernel.py(18)kernel()"
        assert screen.ask("").splitlines()[0] == "> kernel.py(19)kernel()"
        # What comes between the prompt and the wait for a line is seen when a line comes.
        time.sleep(0.5)
        os.kill(screen.process.pid, signal.SIGINT)
        assert "--KeyboardInterrupt--" in screen.until(PROMPT)
        assert "The program finished" in screen.ask("c")
        os.write(screen.master, b"\x04")
        assert screen.process.wait(30) == 0


def test_interrupts_stop_at_the_next_line(tmp_path: Path) -> None:
    # The exit depends on the counter, so the loop makes progress and is no deadlock.
    code = WHILE.replace("n = tl.load(x_ptr + pid)", "n = -1")
    code = code.replace("while n != 1", "while steps < 2147483647")
    with terminal(tmp_path, code, *DEBUG) as screen:
        screen.until(PROMPT)
        screen.type("c")
        time.sleep(3)
        os.kill(screen.process.pid, signal.SIGINT)
        assert "Program interrupted.\n> kernel.py(" in screen.until(PROMPT)
        assert screen.ask("p n").lstrip("-").isdecimal()
        screen.type("q")
        assert screen.process.wait(30) == 0


def test_breakpoint_opens_where_it_stands(tmp_path: Path) -> None:
    with terminal(tmp_path, STOPS, "kernel.py", TILE_BACKEND="interp") as screen:
        stopped = screen.until(PROMPT)
        assert stopped.startswith(
            "> kernel.py(19)kernel()\n-> breakpoint()\n"
            "[program (2, 0, 0) of grid (4, 1, 1); here are 2 programs: (2, 0, 0) to (3, 0, 0)]\n"
        )
        assert screen.ask("p x") == "float32, shape (4,)\n[ 8.  9. 10. 11.]"
        assert screen.ask("n").splitlines()[0] == "> kernel.py(20)kernel()"
        assert screen.ask("restart").startswith("*** this program was not started by `tile debug`")
        screen.type("c")
        assert "sum 8.0" in screen.until("sum 8.0")
        assert screen.process.wait(30) == 0


def test_leaving_ends_the_program_as_pythons_breakpoint_does(tmp_path: Path) -> None:
    with terminal(tmp_path, STOPS, "kernel.py") as screen:
        screen.until(PROMPT)
        screen.type("q")
        assert "bdb.BdbQuit" in screen.until("BdbQuit")
        assert screen.process.wait(30) == 1


@pytest.mark.parametrize("how", ["variable", "hook"])
def test_breakpoints_are_switched_off_as_pythons_are(tmp_path: Path, how: str) -> None:
    variables = {"PYTHONBREAKPOINT": "0"} if how == "variable" else {}
    hook = "import sys\nsys.breakpointhook = lambda: print('hooked')\n" * (how == "hook")
    with terminal(tmp_path, hook + STOPS, "kernel.py", **variables) as screen:
        said = screen.until("sum 8.0")
    assert PROMPT not in said and "is ignored" not in said
    assert ("hooked" in said) is (how == "hook")


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernel.py").write_text(HEAD + STOPS.lstrip("\n"), encoding="utf-8")
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "TILE_CACHE": "0", **variables},
        input="p pid\nc\nq\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_terminal_it_is_passed_over_and_that_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel.py")
    assert done.returncode == 0 and done.stdout == "sum 8.0\n"
    assert "RuntimeWarning: `breakpoint()` at" in done.stderr and "kernel.py:19:9" in done.stderr


def test_tile_debug_reads_commands_from_a_pipe(tmp_path: Path) -> None:
    done = run(tmp_path, *DEBUG[:-1], "-c", "c", "-m", "kernel")
    assert done.returncode == 0
    assert "-> breakpoint()" in done.stdout and "sum 8.0" in done.stdout
