"""`tile trace`."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import numpy as np
import pytest

import tile
from tests.test_timeline import check
from tile.diagnostics.trace import Trace
from tile.tools import trace as tool
from tile.tools.cli import main

PROGRAM = """\
import sys

import numpy as np

import tile
import tile.language as tl


@tile.jit
def double(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x * 2, mask=i < n)


def run(n):
    double[(tile.cdiv(n, 64),)](np.ones(n, np.float32), np.zeros(n, np.float32), n, B=64)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "program.py"


def test_table_page_and_timeline(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM + "run(100)\n")
    assert (
        main(["trace", "program.py", "-o", "t.html", "--perfetto=p.json", "--json", "t.json"]) == 0
    )
    said = capsys.readouterr().out
    assert "double over (2, 1, 1), launched once" in said
    assert "line 12: reads x_ptr: 400 bytes, 13 sectors (96% used), 22% masked off" in said
    assert said.endswith("wrote t.html\nwrote p.json\nwrote t.json\n")
    assert "<code>double</code>" in Path("t.html").read_text("utf-8")
    check(json.loads(Path("p.json").read_text("utf-8")))
    assert json.loads(Path("t.json").read_text("utf-8"))["launches"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "t.html", "program.py", "100", "-o", "own"],
        ["program.py", "-o", "t.html", "100", "-o", "own"],
        ["program.py", "-o", "t.html", "--", "100", "-o", "own"],
        ["-o", "t.html", "program.py", "--", "100", "-o", "own"],
        ["-o", "t.html", "-m", "the_traced_module", "100", "-o", "own"],
    ],
)
def test_whose_option_is_which(
    program: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    program.write_text(PROGRAM + "print(sys.argv[1:])\nrun(int(sys.argv[1]))\n")
    Path("the_traced_module.py").write_text(program.read_text())
    assert main(["trace", *words]) == 0
    assert "['100', '-o', 'own']" in capsys.readouterr().out
    assert Path("t.html").exists()
    assert not Path("own").exists()


def test_a_program_that_fails(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM + "run(100)\nrun('many')\n")
    assert main(["trace", "program.py", "-o", "t.html"]) == 1
    out, messages = capsys.readouterr()
    assert messages.startswith(
        'Traceback (most recent call last):\n  File "program.py", line 19, in'
    )
    assert "runpy" not in messages
    assert "TypeError" in messages
    assert "launched once" in out
    assert "<code>double</code>" in Path("t.html").read_text("utf-8")


def test_a_kernel_that_fails(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(
        PROGRAM + "double[(2,)](np.ones(99, np.float32), np.zeros(90, np.float32), 99, B=64)\n"
    )
    assert main(["trace", "program.py", "-o", "t.html"]) == 1
    out, messages = capsys.readouterr()
    assert 'File "program.py", line 18, in <module>' in messages
    assert "OutOfBoundsError: `double` writes `o_ptr` at element 90" in messages
    assert "line 12: reads x_ptr: 396 bytes" in out
    assert "writes" not in out


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("raise KeyboardInterrupt", 130)])
def test_a_program_that_ends(program: Path, end: str, status: int) -> None:
    program.write_text(PROGRAM + f"run(100)\n{end}\nrun(200)\n")
    assert main(["trace", "program.py", "--json", "t.json"]) == status
    assert json.loads(Path("t.json").read_text("utf-8"))["launches"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "there is no program none.py"),
        (
            ["program.py", "-o", "none/t.html"],
            "cannot write 'none/t.html': none is not a writable folder",
        ),
        (["program.py", "--perfetto", "."], "cannot write '.': it is a folder"),
    ],
)
def test_refused_before_anything_runs(
    program: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program.write_text("raise AssertionError\n")
    assert main(["trace", *words]) == 1
    assert said in capsys.readouterr().err


def test_what_cannot_be_written_after_all_is_written_elsewhere(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program.write_text(PROGRAM + "run(100)\nimport os\nos.mkdir('t.html')\n")
    assert main(["trace", "program.py", "-o", "t.html"]) == 1
    messages = capsys.readouterr().err
    assert "error: the trace cannot be written to 't.html'" in messages
    other = Path(messages.rpartition("wrote ")[2].removesuffix(" instead\n"))
    assert "<code>double</code>" in other.read_text("utf-8")
    other.unlink()


def test_no_launches(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text("print('nothing to do')\n")
    assert main(["trace", "program.py"]) == 0
    assert capsys.readouterr().out == "nothing to do\nno launches\n"


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trace", "--help"])
    said = capsys.readouterr().out
    for word in ("tile trace program.py -o trace.html", "ui.perfetto.dev", "masked off"):
        assert word in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_printed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "EVERY", 0.01)
    terminal, file = Terminal(), io.StringIO()
    trace = Trace()
    trace.begin("slow", (1, 1, 1), ())
    for stream in (terminal, file):
        with tool._progress(trace, stream):
            time.sleep(0.2)
    assert "tile trace: launch 1 (slow), 0 instructions" in terminal.getvalue()
    assert file.getvalue() == ""


def test_api_runs_on_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_INTERP_LEVEL", "thread")
    from docs.traced_program import transpose

    with tile.trace() as trace:
        transpose[(1, 1)](np.ones((4, 4), np.int8), np.ones((4, 4), np.int8), 4, 4, M=4, N=4)
    assert trace.launches == 1
    with pytest.raises(tile.errors.ArgumentValueError, match="the timeline cannot be written"):
        trace.perfetto(tmp_path)
