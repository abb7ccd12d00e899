"""Whole programs that import triton, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tile.compat.environment import FOLDER
from tile.tools.cli import main

PROGRAMS = Path(__file__).parent / "programs"
OUTPUT = {
    "vector_add": "vector add: equal 3.8.0",
    "fused_softmax": "softmax: equal cpu",
    "matmul": "matmul: equal",
    "layer_norm": "layer norm: equal",
    "attention": "attention: equal False",
    "dropout": "dropout: equal",
    "libdevice_functions": "libdevice: equal",
    "persistent_matmul": "persistent matmul: equal",
    "dependent_launch": "dependent launch: equal",
    "block_scaled_matmul": "block scaled matmul: equal",
    "grouped_gemm": "grouped gemm: equal",
}


# Its kernel gets addresses of arrays in an array of integers.
SETTINGS = {"grouped_gemm": {"TILE_INTERP_MEMORY": "process"}}


def run(*command, **environment) -> str:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "TILE_"))}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env={**inherited, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", OUTPUT)
def test_programs_run_unchanged(name) -> None:
    settings = SETTINGS.get(name, {})
    assert OUTPUT[name] in run("-m", "tile", "triton", PROGRAMS / f"{name}.py", **settings)


def test_python_finds_the_package_in_the_folder(tmp_path) -> None:
    path = os.pathsep.join([str(FOLDER), str(Path(__file__).parents[2])])
    output = run(PROGRAMS / "vector_add.py", PYTHONPATH=path, TILE_TRITON="3.6.0")
    assert output == "vector add: equal 3.6.0\n"


def test_children_inherit_it(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "import triton\n"
        "code = 'import triton.language as tl, triton; print(triton.__version__, tl.load)'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    output = run("-m", "tile", "triton", "--version", "3.9.0", program)
    assert output == "3.9.0 <tl.load>\n"


def test_modules_run_as_programs(tmp_path) -> None:
    test = tmp_path / "test_one.py"
    test.write_text("import triton\n\ndef test():\n    assert triton.__version__ == '3.8.0'\n")
    output = run("-m", "tile", "triton", "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    assert "100%" in output


def test_pytest_alone_has_it_by_the_environment(tmp_path) -> None:
    test = tmp_path / "test_one.py"
    test.write_text("import triton\n\ndef test():\n    assert triton.__version__ == '3.6.0'\n")
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_tile", test)
    assert "100%" in run(*command, TILE_TRITON="3.6.0")


def test_the_folder_is_printed() -> None:
    assert run("-m", "tile", "triton", "--path") == f"{FOLDER}\n"


def test_triton_interpret_and_cache_dir(tmp_path) -> None:
    program = tmp_path / "program.py"
    shown = "add_kernel, triton.knobs.cache.dir, triton.knobs.autotuning.print"
    program.write_text((PROGRAMS / "vector_add.py").read_text() + f"    print({shown})\n")
    settings = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_PRINT_AUTOTUNING": "1"}
    output = run("-m", "tile", "triton", program, TRITON_INTERPRET="1", **settings)
    assert f"<InterpretedFunction __main__.add_kernel> {tmp_path} True" in output


def test_addresses_in_integers_reach_the_launchs_arrays_only() -> None:
    command = [sys.executable, "-m", "tile", "triton", str(PROGRAMS / "grouped_gemm.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode and "which belongs to no array of this launch" in done.stderr
    assert "set TILE_INTERP_MEMORY=process" in done.stderr


def test_a_program_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triton"]) == 1
    assert "tile triton takes a program: tile triton program.py" in capsys.readouterr().err


FAILING = """\
import numpy as np
import triton
import triton.language as tl

@triton.jit
def kernel(x):
    tl.store(x, unknown_name)

def launch():
    kernel[(1,)](np.zeros(4, np.float32))

launch()
"""


@pytest.mark.parametrize("module", [False, True])
def test_errors_of_programs_have_the_frames_of_the_program_alone(tmp_path, module: bool) -> None:
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    name = ("-m", "failing") if module else (str(program),)
    command = [sys.executable, "-m", "tile", "triton", *name]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    settings = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, env=settings)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0] == "Traceback (most recent call last):"
    assert [line.split(", ", 1)[1] for line in lines if line.startswith("  File")] == [
        "line 12, in <module>",
        "line 10, in launch",
    ]
    assert "tile.errors.CompilationError: `unknown_name` is not defined" in lines


def test_a_syntax_error_of_a_program_has_no_frames(tmp_path) -> None:
    program = tmp_path / "failing.py"
    program.write_text("print(1\n")
    command = [sys.executable, "-m", "tile", "triton", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(f'  File "{program}", line 1\n')


@pytest.mark.parametrize("command", ["check", "trace"])
def test_other_commands_run_programs_for_triton_by_the_environment(tmp_path, command: str) -> None:
    program = tmp_path / "program.py"
    program.write_text((PROGRAMS / "vector_add.py").read_text())
    output = run("-m", "tile", command, program, TILE_TRITON="1")
    assert OUTPUT["vector_add"] in output and "add_kernel" in output
    arguments = [sys.executable, "-m", "tile", command, str(program)]
    inherited = {k: v for k, v in os.environ.items() if k != "TILE_TRITON"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=inherited)
    if done.returncode:  # Triton is not installed
        assert "TILE_TRITON=1 in the environment lets `import triton` give tile" in done.stderr
