"""Commands whose output is closed, full or read by nobody, and commands that are interrupted."""

from __future__ import annotations

import functools
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import running
from tests.sampling import sample
from tile.tools.cli import main
from tile.tools.command import CheckedStream

PROGRAM = """
import numpy as np
import time
import tile
import tile.language as tl

@tile.jit
def twice(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n + 1)

if __name__ == "__main__":
    x = np.ones(100, np.float32)
    for launch in range(2):
        try:
            twice[lambda meta: (tile.cdiv(100, meta["B"]),)](x, np.empty_like(x), 100, B=64)
        except tile.errors.TileError:
            pass
    print("waiting", flush=True)
    time.sleep(WAIT)
"""
COMMANDS = {
    "info": ["info", "interp"],
    "help": ["--help"],
    "help of a command": ["check", "--help"],
    "cache": ["cache", "size"],
    "opt": ["opt", "--list"],
    "check": ["check", "program.py"],
    "trace": ["trace", "program.py"],
    "debug": ["debug", "-c", "q", "program.py"],
    "compile": [
        *("compile", "program.py:twice", "-s", "*fp32,*fp32,i32", "-c", "B=64"),
        *("-t", "interp:generic"),
    ],
    "explain": [
        *("explain", "program.py:twice", "x_ptr=fp32[100]", "o_ptr=fp32[101]", "n=100", "B=64"),
        *("--grid", "2"),
    ],
}
MAIN = "import sys; from tile.tools.cli import main; sys.exit(main(sys.argv[1:]))"

# All commands write by one kind of stream; their programs are processes, which take a second each.


def each_time(*names: str, of: Iterable[str]) -> list[Any]:
    """Return the commands `of` a test as parameters; all but some run nightly."""
    return [pytest.param(n, marks=() if n in names else pytest.mark.nightly) for n in of]


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections")


def test_a_stream_is_left_alone_when_its_wrapper_is_deleted() -> None:
    """IOBase's finalizer flushes; from Python 3.13 on it prints what flushing a closed stream raises."""
    flushed = []

    class Stream(io.StringIO):
        def flush(self) -> None:
            flushed.append(True)

    stream = Stream()
    checked = CheckedStream(stream)
    del checked
    assert not flushed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM.replace("WAIT", "0"))
    return tmp_path


def shell(folder: Path, arguments: list[str], redirections: str) -> tuple[int, str]:
    """A command under a shell's redirections: its status, and what it said of errors."""
    done = subprocess.run(
        [
            *("bash", "-c", f'set -o pipefail; "$@" {redirections}', "-"),
            *(sys.executable, "-c", MAIN, *arguments),
        ],
        cwd=folder,
        env={**os.environ, "TILE_CACHE": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", each_time("help", "check", of=COMMANDS))
def test_a_full_disk_is_one_line_and_a_status(folder: Path, name: str) -> None:
    status, said = shell(folder, COMMANDS[name], ">/dev/full")
    assert status == 1
    assert said == "error: cannot write to the standard output: No space left on device\n"


@pytest.mark.parametrize(
    "name", each_time("info", "trace", of=("info", "help", "check", "trace", "debug", "opt"))
)
def test_a_reader_that_ends_early_is_no_error(folder: Path, name: str) -> None:
    assert shell(folder, COMMANDS[name], "| head -c 0") == (141, "")


@pytest.mark.parametrize(
    "name", each_time("help", "check", of=("info", "help", "check", "trace", "debug"))
)
def test_a_closed_output(folder: Path, name: str) -> None:
    status, said = shell(folder, COMMANDS[name], ">&-")
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith("error: cannot write to the standard output")


@pytest.mark.parametrize(
    ("name", "redirections"), sample(["info", "trace", "debug"], ["2>&-", "2>/dev/full", "<&-"])
)
def test_other_streams_are_not_needed(folder: Path, name: str, redirections: str) -> None:
    assert shell(folder, COMMANDS[name], redirections) == (0, "")


@pytest.mark.parametrize("redirections", each_time("2>&-", of=("2>&-", "2>/dev/full", ">&-")))
def test_wrong_usage_keeps_its_status(folder: Path, redirections: str) -> None:
    assert shell(folder, ["nonsense"], redirections)[0] == 2


def test_what_a_program_raises_itself_is_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise BrokenPipeError('a socket')")
    assert main(["check", str(program)]) == 1
    assert capsys.readouterr().err.endswith("BrokenPipeError: a socket\n")


@pytest.mark.parametrize("outputs", [["-o", "/dev/full"], ["--json", "/dev/full"]])
def test_a_page_that_cannot_be_written_fails_a_trace(folder: Path, outputs: list[str]) -> None:
    status, said = shell(folder, ["trace", *outputs, "program.py"], "")
    assert status == 1
    assert said.count("\n") == 1
    assert "No space left on device" in said


@pytest.mark.parametrize("output", ["--html", "--json"])
def test_a_page_that_cannot_be_written_fails_a_check(folder: Path, output: str) -> None:
    status, said = shell(folder, ["check", output, "/dev/full", "program.py"], "")
    assert status == 1
    assert "No space left on device" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["check", "trace"])
def test_an_interrupted_command_prints_its_results_so_far(tmp_path: Path, command: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("WAIT", "60"))
    with running(
        [sys.executable, "-c", MAIN, command, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TILE_CACHE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell starts what runs in its background with this signal ignored, and so its children.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        started.send_signal(signal.SIGINT)
        out, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "twice" in out
    if command == "check":
        assert "the program did not run to its end; these are the findings until then" in out
        assert "wrong: " in out
        assert said == "interrupted\n"


def test_constants_to_vary_that_are_none(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ("NOPE", "n"):
        assert main(["check", "--vary", f"{name}=1", "program.py"]) == 1
        error = capsys.readouterr().err
        assert f"--vary {name}: no kernel that was launched has such a tl.constexpr" in error
        assert "they have B" in error


def test_constants_to_vary_that_do_not_compile(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(["check", "--checks", "none", "--vary", "B=0", "--vary", "B=32", "program.py"]) == 1
    out = capsys.readouterr().out
    assert "arange counts up: its end, 0, is not above its start, 0" in out
    assert "with B=0" in out
