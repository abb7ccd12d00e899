"""The lines of the Python program in PTX, and in what ptxas makes of it: those of called functions too.

Profilers, debuggers and compute-sanitizer name these lines.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import ARCHITECTURES, assembler


@tile.jit
def scaled(x, factor):
    doubled = x + x  # doubles
    return doubled * factor  # scales


@tile.jit
def apart(x, factor):
    return x / factor  # divides


@tile.jit
def kernel(x_ptr, y_ptr, n, factor, N: tl.constexpr):  # kernel
    index = tl.arange(0, N)
    x = tl.load(x_ptr + index, mask=index < n, other=0.0)  # loads
    y = scaled(x, factor)
    total = tl.sum(y, axis=0)  # sums
    y = tl.sigmoid(y)
    y = apart(y, total)
    tl.store(y_ptr + index, y, mask=index < n)  # stores


THIS = Path(__file__).name
WORDS = ("doubles", "scales", "divides", "loads", "sums", "stores")


def line_of(word: str) -> int:
    """The line of this file with a comment of one word, as that below."""
    lines = Path(__file__).read_text().splitlines()
    (number_of_line,) = [
        number for number, line in enumerate(lines, 1) if line.endswith(f"  # {word}")
    ]
    return number_of_line


def compiled(arch: str) -> str:
    types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "n": "i32", "factor": "fp32"}
    text: Any = tile.compile(kernel, types, {"N": 1024}, target=f"nvptx:{arch}").asm["ptx"]
    return str(text)


def locations(ptx: str) -> set[tuple[str, int]]:
    """The files, by their names alone, and lines that instructions are from."""
    files = dict(re.findall(r'\.file\s+(\d+) "([^"]+)"', ptx))
    lines = re.findall(r"\.loc\s+(\d+) (\d+)", ptx)
    return {(Path(files[file]).name, int(line)) for file, line in lines}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_line_is_named(arch: str) -> None:
    lines = locations(compiled(arch))
    for word in WORDS:
        assert (THIS, line_of(word)) in lines, word
    assert {file for file, _ in lines} == {THIS}


def test_sums_are_of_the_line_that_asks_for_them() -> None:
    """Operations that a lowering adds have the location of what it lowers."""
    ptx = compiled("sm_90a")
    line = None
    for text in ptx.splitlines():
        line = re.match(r"\s*\.loc\s+\d+ (\d+)", text) or line
        if re.search(r"\s(shfl\.sync|bar\.sync|barrier|st\.shared|ld\.shared)", text):
            assert line is not None
            assert int(line[1]) == line_of("sums")
        assert line is None or int(line[1]) != line_of("kernel") or "add.f32" not in text


def test_the_assembler_keeps_them(tmp_path: Path) -> None:
    """Without making it a program to debug, which would not be optimized."""
    ptx = compiled("sm_90a")
    assert ", debug" not in ptx
    source, cubin = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(ptx)
    command = [assembler(), "-lineinfo", "-arch=sm_90a", str(source), "-o", str(cubin)]
    subprocess.run(command, check=True, capture_output=True)
    image = cubin.read_bytes()
    assert b".debug_line" in image
    assert THIS.encode() in image
