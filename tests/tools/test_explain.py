"""`tile explain`: the costs of a kernel line by line, and its layouts."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tile.tools.cli import main

KERNELS = str(Path(__file__).parents[1] / "simt" / "kernels.py")
TRANSPOSE = [f"{KERNELS}:transpose", "x_ptr=fp32[32,32]", "y_ptr=fp32[32,32]:0", "N=32"]

STRIDED = """
import tile
import tile.language as tl


@tile.jit
def strided(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + 2 * i, tl.load(x_ptr + 2 * i))
"""


def rows(printed: str) -> dict[str, list[str]]:
    """The cells of the table behind the source, by the source line's beginning."""
    numbers = {}
    for line in printed.splitlines():
        cells = [cell for cell in line.split("  ") if cell.strip()]
        if len(cells) > 2 and cells[0].strip().isdigit():
            numbers[cells[1].strip()[:12]] = [cell.strip() for cell in cells[2:]]
    return numbers


def test_costs_of_a_transpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *TRANSPOSE]) == 0
    printed = capsys.readouterr().out
    assert "transpose on the generic machine: 4 warps of 32, 3 stages" in printed
    assert "4,096 bytes of shared memory and 1 barriers in a program" in printed
    assert "global memory: 256 sectors, efficiency 100.0%" in printed
    assert "0 of them due to bank conflicts" in printed
    load = rows(printed)["x = tl.load("]
    assert load[2:] == ["128", "100%"]


def test_waste_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every other number: of each sector half."""
    file = tmp_path / "strided.py"
    file.write_text(STRIDED)
    arguments = [f"{file}:strided", "x_ptr=fp32[512]", "y_ptr=fp32[512]:0", "N=256"]
    assert main(["explain", *arguments, "--num-warps", "2"]) == 0
    printed = capsys.readouterr().out
    # For the load and the store 64 sectors each, of which 32 would do.
    assert "global memory: 128 sectors, efficiency 50.0%" in printed


DESCRIBED = """
import tile
import tile.language as tl


@tile.jit
def shifted(x, y, n):
    y.store([0, 0], x.load([0, 8]) + n)
"""


def test_descriptors_of_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A block of 16 x 32, of which the array, whose rows are padded, has 10 x 22."""
    file = tmp_path / "shifted.py"
    file.write_text(DESCRIBED)
    arguments = [f"{file}:shifted", "x=fp32[10,30]/16,32", "y=fp32[16,32]:0/16,32", "n=1"]
    assert main(["explain", *arguments]) == 0
    printed = capsys.readouterr().out
    (costs,) = (cells for line, cells in rows(printed).items() if line.startswith("y.store"))
    # Rows of 22 numbers are 3 sectors, those of 32 are 4.
    assert costs[2] == str(10 * 3 + 16 * 4)


def test_layouts_are_listed_shown_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--layouts", "--show", "x", "--draw", str(tmp_path), "--num-warps", "1"]
    assert main(["explain", *TRANSPOSE, *options]) == 0
    printed = capsys.readouterr().out
    assert "#linear{register = " in printed
    assert "lane:register" in printed
    pictures = sorted(tmp_path.glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert f"{picture.name}: " in printed
        ElementTree.fromstring(picture.read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:f"], "there is no file nowhere.py"),
        ([f"{KERNELS}:nothing"], "has no nothing"),
        ([KERNELS], "a kernel is named as in file.py:function"),
        ([f"{KERNELS}:numbers"], "takes a @tile.jit function"),
        ([*TRANSPOSE[:3], "N"], "an argument is given as in name=value, not 'N'"),
        ([*TRANSPOSE[:3], "N=many"], "N is a number, true, false, none, an array"),
        ([TRANSPOSE[0], "x_ptr=fp31[4]"], "x_ptr has elements of i1, i8"),
        ([*TRANSPOSE, "--grid", "many"], "the grid many has no value"),
        ([*TRANSPOSE, "--show", "q"], "no value 'q' has a layout"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_ends_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a program does that exits with its status, without asking whether it is one."""
    file = tmp_path / "program.py"
    file.write_text(STRIDED + "\nraise SystemExit(0)\n")
    assert main(["explain", f"{file}:strided", "N=256"]) == 1
    assert f"{file} ends the process when it is imported" in capsys.readouterr().err


def test_a_tile_too_large_is_itemised(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [TRANSPOSE[0], "x_ptr=fp32[256,256]", "y_ptr=fp32[256,256]:0", "N=256"]
    assert main(["explain", *arguments, "--num-warps", "32"]) == 1
    said = capsys.readouterr().err
    assert "shared" in said
    assert "256x256xf32" in said
