"""The commands take Triton-C files, and name their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile.tools.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "triton_c"
MATMUL = f"{FOLDER / 'matmul_nt.tc'}:matmul_nt"
ARRAYS = [f"{name}=fp32[32,32]" for name in "abc"]
NUMBERS = [*(f"{name}=32" for name in "MNK"), "TM=32", "TN=32", "TK=16"]

WRITES_BEYOND = """
const tunable int N = {16};
const int SHIFT = S;

kernel void f(float* x) {
    int i[N] = 0 ... N;
    *(x + i + SHIFT) = i;
}
"""


def test_opt_prints_the_ir_of_all_kernels_with_given_and_first_tunables(capsys):
    assert main(["opt", str(FOLDER / "matmul_nt.tc"), "-D", "TM=64", "-p", "TILE"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("kernel @matmul_nt(%a: ptr<f32> {readonly}, %b: ptr<f32> {readonly},")
    assert "tile<64x16xf32>" in printed and "tile<32x16xf32>" in printed


def test_opt_takes_one_kernel_of_a_file(tmp_path, capsys):
    file = tmp_path / "two.tc"
    file.write_text("kernel void f(int* x) { *x = 1; }\nkernel void g(int* x) { *x = 2; }\n")
    assert main(["opt", f"{file}:g"]) == 0
    printed = capsys.readouterr().out
    assert "@g" in printed and "@f" not in printed
    assert main(["opt", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "@g" in printed and "@f" in printed
    assert main(["opt", f"{file}:h"]) != 0
    assert "has no kernel h" in capsys.readouterr().err


def test_opt_refuses_values_for_ir_text(tmp_path, capsys):
    file = tmp_path / "k.tile"
    file.write_text("kernel @k() {\n  return\n}\n")
    assert main(["opt", str(file), "-D", "N=3"]) != 0
    assert "--define is for Triton-C files" in capsys.readouterr().err


def test_compile_knows_the_declared_types(tmp_path, capsys):
    pytest.importorskip("llvmlite")
    folder = tmp_path / "out"
    assert main(["compile", MATMUL, "TM=32", "TN=32", "TK=16", "-o", str(folder)]) == 0
    assert ".entry matmul_nt" in (folder / "matmul_nt.ptx").read_text()
    assert capsys.readouterr().out


def test_explain_names_lines_of_the_file(capsys):
    assert main(["explain", MATMUL, *ARRAYS, *NUMBERS]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if "C = dot(A, trans(B), C);" in x)
    assert line.split()[0] == "28"


def test_check_finds_a_fault_at_its_line(tmp_path, capsys):
    file = tmp_path / "beyond.tc"
    file.write_text(WRITES_BEYOND)
    command = ["check", "--define", "S=3", f"{file}:f", "x=fp32[16]", "N=16"]
    assert main(command) == 1
    printed = capsys.readouterr().out
    assert "beyond.tc:7" in printed
    assert "*(x + i + SHIFT) = i;" in printed


def test_check_of_a_right_kernel(capsys):
    assert main(["check", MATMUL, *ARRAYS, *NUMBERS]) == 0
    assert "all is well" in capsys.readouterr().out


def test_a_python_file_takes_no_values_of_the_host(capsys):
    kernel = Path(__file__).parents[1] / "simt" / "kernels.py"
    assert main(["explain", "-D", "N=3", f"{kernel}:transpose"]) != 0
    assert "--define is for Triton-C files" in capsys.readouterr().err
