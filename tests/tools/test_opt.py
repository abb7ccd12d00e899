"""`tile opt` as one uses it, and the command line around it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tile.ir.passes import PASSES
from tile.tools.cli import main

TEXT = "func @f(%x: i32) -> (i32) {\n  %y = add %x, %x : i32\n  %z = mul %y, %y : i32\n  return %y\n}\n"
CLEAN = "func @f(%x: i32) -> (i32) {\n  %y = add %x, %x : i32\n  return %y\n}\n"
WRONG = "func @g(%x: i32) {\n  %y = frob %x : i32\n  return\n}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.tile"
    path.write_text(TEXT)
    return path


def test_it_prints_what_it_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file)]) == 0
    assert capsys.readouterr().out == TEXT


def test_it_runs_passes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "-p", "dce", "--verify-each"]) == 0
    assert capsys.readouterr().out == CLEAN


def test_it_runs_a_pipeline_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "-p", "TILE"]) == 0
    assert capsys.readouterr().out == CLEAN


def test_it_reads_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert main(["opt", "-", "-p", "dce"]) == 0
    assert capsys.readouterr().out == CLEAN


def test_it_writes_a_file(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.tile"
    assert main(["opt", str(file), "-p", "dce", "-o", str(out)]) == 0
    assert out.read_text() == CLEAN
    assert capsys.readouterr().out == ""


def test_it_prints_locations(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "--locations"]) == 0
    assert f'loc("{file}":2:7-10)' in capsys.readouterr().out


def test_an_analysis_is_printed_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "-p", "print-ranges"]) == 0
    assert capsys.readouterr().out.count("func @f") == 1


def test_parts_are_taken_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is wrong is reported at its line of the whole, and the others are printed."""
    path = tmp_path / "parts.tile"
    path.write_text(f"{TEXT}// -----\n{WRONG}// -----\n{TEXT}")
    assert main(["opt", str(path), "--split", "-p", "dce"]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{CLEAN}// -----\n{CLEAN}"
    assert "error: unknown operation `frob`" in printed.err
    assert f"{path}:8:8" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.tile"], "error: cannot read missing.tile: "),
        (["FILE", "-p", "nothing"], "error: no pass is named `nothing`; there are "),
        (["FILE", "-p", "dce{x=1}"], "error: pass `dce` has no option `x`; it has none"),
        (["FILE", "-o", "no/such/folder/out"], "error: cannot write no/such/folder/out: "),
    ],
)
def test_what_is_wrong_is_said_plainly(
    arguments: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [str(file) if part == "FILE" else part for part in arguments]
    assert main(["opt", *filled]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(message)
    assert printed.out == ""


def test_text_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    assert main(["opt", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: cannot read {path}: ")


def test_ir_that_does_not_verify_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.tile"
    path.write_text("kernel @k(%x: f32) -> (f32) {\n  return %x\n}\n")
    assert main(["opt", str(path)]) == 1
    error = capsys.readouterr().err.splitlines()
    assert error[0] == "error: kernel @k returns values; a kernel has no results"
    assert error[1].strip() == f"at {path}:1:1"
    assert error[2].strip() == "1 | kernel @k(%x: f32) -> (f32) {"


def test_it_lists_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0].partition("{")[0] for line in lines]
    assert names == sorted(defn.name for defn in PASSES)
    assert any(line.startswith("unroll{limit=0}") for line in lines)


@pytest.mark.parametrize("arguments", [["--help"], ["opt", "--help"]])
def test_help_teaches_by_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as finished:
        main(arguments)
    assert finished.value.code == 0
    text = capsys.readouterr().out
    assert ("@tile.jit" in text) or ("tile opt kernel.tile -p canonicalize,cse" in text)


def test_no_command_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as finished:
        main([])
    assert finished.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_the_command_runs_by_itself(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tile", "opt", str(file), "-p", "dce"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.stdout == CLEAN
