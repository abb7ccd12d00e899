"""`tile check`: programs, modules and kernels; what it says, and its exit status."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from tile.tools.cli import main

KERNELS = """\
import sys
import numpy as np
import tile
import tile.language as tl


@tile.jit
def double(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, i < n) * 2, i < n)


@tile.jit
def last_wins(o_ptr):
    tl.store(o_ptr, tl.program_id(0))
"""
SOUND = """
x, o = np.ones(20, np.float32), np.zeros(20, np.float32)
double[lambda meta: (tile.cdiv(20, meta["B"]),)](x, o, 20, B=8)
print("sum", o.sum(), sys.argv[1:])
"""
RACY = """
last_wins[(4,)](np.zeros(1, np.int32))
"""


def program(folder: Path, *parts: str) -> str:
    path = folder / "program.py"
    path.write_text("".join((KERNELS, *parts)), encoding="utf-8")
    return str(path)


def test_a_sound_program_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program(tmp_path, SOUND), "--flag", "word"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("sum 40.0 ['--flag', 'word']\n")
    assert said.endswith("all is well\n")
    assert [line.split() for line in said.splitlines() if line.startswith("double")] == [
        ["double", "B=8", "1", "4"]
    ]


def test_a_constant_that_was_not_varied_is_not_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "found.json"
    options = ["--vary", "B=4", "--vary", "BLOCK=4", "--json", str(file)]
    assert main(["check", *options, program(tmp_path, SOUND)]) == 1
    out, error = capsys.readouterr()
    assert out.endswith("\nnot varied: BLOCK\n")
    assert "--vary BLOCK: no kernel that was launched has such a tl.constexpr; they have B" in error
    assert json.loads(file.read_text(encoding="utf-8"))["verdict"] == "not varied: BLOCK"


def test_faults_and_dependences_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "found.json", tmp_path / "found.html"
    options = ["check", "--json", str(file), "--html", str(page)]
    assert main([*options, program(tmp_path, RACY)]) == 1
    said = capsys.readouterr().out
    assert "race: `last_wins` writes `o_ptr[0]`, which another program writes" in said
    assert "`last_wins` depends on how it is launched: with TILE_INTERP_ORDER=reverse" in said
    assert said.endswith("wrong: 1 fault and 1 result that should not have changed\n")
    report = json.loads(file.read_text("utf-8"))
    assert report["wrong"] and report["dependences"][0]["difference"]["there"] == "0"
    assert report["report"]["groups"][0]["check"] == "race"
    drawn = html.unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8")))
    words = " ".join(drawn.split())
    for line in said.splitlines():
        if line.strip("- ") and not line.startswith(("  note: ", "    ")):
            message = line.strip().replace("`", "")
            if message.startswith(("kernel ", "last_wins ", "race: ", "at ", "1 fault", "wrong")):
                continue  # laid out otherwise: looked at below
            assert message.casefold() in words.replace("`", "").casefold(), line
    for message in (
        "Launches KernelConstantsLaunchesOther ways last_wins\N{EN DASH}14: TILE_INTERP_ORDER=reverse, ",
        "1 fault at 1 place",
        "Checked for bounds, race, undef, overflow, assume, deadlock: 1 launch of last_wins on",
        "`last_wins` depends on how it is launched: with TILE_INTERP_ORDER=reverse",
        "note: `o_ptr[0]` is 3 as the program launches it, and 0 that way",
        "Wrong: 1 fault and 1 result that should not have changed. The exit status is 1.",
    ):
        assert message in words, message


def test_a_page_without_faults_says_what_was_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "found.html"
    vary = ["--vary", "B=4", "--html", str(page)]
    launch = "\nx = np.ones(20, np.float32)\ndouble[(3,)](x, x, 20, B=8)\n"
    assert main(["check", *vary, program(tmp_path, launch)]) == 0
    words = " ".join(html.unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8"))).split())
    checked = "No faults Checked for bounds, race, undef, overflow, assume, deadlock: 1 launch of "
    assert f"{checked}double on interp. All is well. The exit status is 0." in words
    assert "; not varied in B: its grid does not depend on it" in words
    assert "note: `double` with B=8 was not varied in B" in capsys.readouterr().out


def test_a_page_names_the_variation_with_the_fault(tmp_path: Path) -> None:
    page = tmp_path / "found.html"
    kernel = """
@tile.jit
def beyond(o_ptr, flag_ptr):
    pid = tl.program_id(0)
    seen = tl.load(flag_ptr)
    tl.store(flag_ptr, 1, mask=pid == 1)
    tl.store(o_ptr + seen, 1, mask=pid == 0)


beyond[(2,)](np.zeros(1, np.int32), np.zeros(1, np.int32))
"""
    options = ["--checks", "bounds", "--html", str(page)]
    assert main(["check", *options, program(tmp_path, kernel)]) == 1
    words = " ".join(re.sub(r"<[^>]*>", "", page.read_text("utf-8")).split())
    assert "Only with TILE_INTERP_ORDER=" in words


def test_a_module_is_a_program_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name that no other test imports: modules stay in this process.
    Path(program(tmp_path, SOUND)).rename(tmp_path / "program_as_module.py")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "-m", "program_as_module", "word"]) == 0
    assert "sum 40.0 ['word']" in capsys.readouterr().out


def test_a_kernel_is_launched_on_random_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["check", "--grid", "cdiv(n, B)", "--vary", "B=4,16"]
    arguments = ["x_ptr=fp32[20]", "o_ptr=fp32[20]:0", "n=20", "B=8"]
    assert main([*options, program(tmp_path) + ":double", *arguments]) == 0
    assert ["double", "B=8", "1", "6"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]
    arguments[1] = "o_ptr=fp32[10]:0"
    assert main([*options, program(tmp_path) + ":double", *arguments]) == 1
    assert "bounds: `double` writes `o_ptr` at element 10" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ending", "status"), [("sys.exit()", 0), ("sys.exit(3)", 3), ("sys.exit('no')", 1)]
)
def test_the_exit_status_is_the_programs_where_all_is_well(
    tmp_path: Path, ending: str, status: int
) -> None:
    assert main(["check", program(tmp_path, SOUND, ending)]) == status
    assert main(["check", program(tmp_path, RACY, ending)]) == 1


def test_a_failing_program_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program(tmp_path, RACY, "1 / 0")]) == 1
    said = capsys.readouterr()
    assert "race: `last_wins`" in said.out
    assert said.err.startswith("Traceback (most recent call last):\n") and "tools" not in said.err
    assert said.err.endswith("ZeroDivisionError: division by zero\n")


def test_no_launch_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program(tmp_path)]) == 0
    assert capsys.readouterr().out == "no kernel was launched\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["none.py"], "there is no program none.py"),
        (["--checks", "speed", "none.py"], "there is no check 'speed'"),
        (["--vary", "B", "none.py"], "--vary is as in BLOCK=64,128, not 'B'"),
        (["--vary", "B=x", "none.py"], "B is a number"),
        (["--seeds", "-1", "none.py"], "--seeds is a number from 0, not -1"),
        (["none.py:kernel"], "there is no file none.py"),
    ],
)
def test_bad_input_is_named(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *options]) == 1
    said = capsys.readouterr()
    assert problem in said.err and not said.out


@pytest.mark.parametrize("grid", ["cdiv(", "cdiv(m, B)", "n / 0"])
def test_a_grid_without_a_value_is_named(
    tmp_path: Path, grid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = program(tmp_path) + ":double"
    arguments = ["x_ptr=fp32[20]", "o_ptr=fp32[20]:0", "n=20", "B=8"]
    assert main(["check", "--grid", grid, kernel, *arguments]) == 1
    assert grid in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "missing" / "found.json")
    assert main(["check", "--json", file, program(tmp_path, SOUND)]) == 1
    captured = capsys.readouterr()
    assert captured.out.endswith("all is well\n")
    assert f"cannot be written to '{file}'" in captured.err
