"""Compiling without the CUDA driver's package, and the search for files of the CUDA toolkit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tile
import tile.language as tl
from tile.backends.nvptx import ptxas, toolkit
from tile.errors import BackendError

ROOT = Path(__file__).parents[3]

KERNELS = """
import tile
import tile.language as tl

@tile.jit
def double(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))

@tile.jit
def sine(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.sin(tl.load(x_ptr + i)))
"""

BLOCK_CUDA = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "cuda":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def run_without_cuda(folder: Path, program: str) -> str:
    """Run a program that cannot import `cuda`, with `kernels` on its path; return its output."""
    process = subprocess.run(
        [sys.executable, "-c", BLOCK_CUDA + program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_compile_without_cuda_python(folder: Path) -> None:
    if toolkit.find_libdevice() is None:
        pytest.skip("libdevice is not installed; pip install nvidia-nvvm brings it")
    program = """
import tile
from kernels import double, sine

for kernel in (double, sine):
    print(tile.compile(kernel, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx:sm_90a").asm["ptx"])
assert "cuda" not in sys.modules
"""
    output = run_without_cuda(folder, program)
    assert output.count(".target sm_90a") == 2 and ".entry sine" in output


def test_command_without_cuda_python(folder: Path) -> None:
    program = """
from tile.tools.cli import main

assert main(["compile", "kernels.py:double", "--target", "sm_90a", "-o", "out",
             "--signature", "x_ptr=*fp32", "--constants", "B=64"]) == 0
assert main(["info", "nvptx"]) == 0
"""
    output = run_without_cuda(folder, program)
    assert "pip install 'tile-compiler[cuda]'" in output
    assert ".target sm_90a" in (folder / "out" / "double.ptx").read_text()


def test_launch_without_cuda_python(folder: Path) -> None:
    program = """
import numpy as np
import tile
from kernels import double
from tile.errors import BackendError

compiled = tile.compile(double, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx:sm_90a")
for launch in (
    lambda: compiled[(1,)](np.ones(64, np.float32)),
    lambda: tile.compile(double, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx"),
):
    try:
        launch()
    except BackendError as error:
        print(error)
"""
    output = run_without_cuda(folder, program)
    assert output.count("pip install 'tile-compiler[cuda]' brings it") == 2
    assert "name an architecture" in output


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Hide NVIDIA's wheels and the toolkits of this machine."""
    monkeypatch.setattr(toolkit, "_wheels", lambda: iter(()))
    monkeypatch.setattr(toolkit, "_USUAL", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", "")
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    toolkit.default_libdevice.cache_clear(), ptxas.default.cache_clear()
    yield
    toolkit.default_libdevice.cache_clear(), ptxas.default.cache_clear()


@pytest.mark.usefixtures("no_wheels")
def test_compile_without_libdevice() -> None:
    @tile.jit
    def kernel(x_ptr, SINE: tl.constexpr):
        i = tl.arange(0, 64)
        x = tl.load(x_ptr + i)
        tl.store(x_ptr + i, tl.sin(x) if SINE else 2 * x)

    def ptx(sine: bool) -> str:
        compiled = tile.compile(kernel, {"x_ptr": "*fp32"}, {"SINE": sine}, target="nvptx:sm_90a")
        return str(compiled.asm["ptx"])

    assert ".entry kernel" in ptx(sine=False)
    with pytest.raises(BackendError, match="pip install nvidia-nvvm brings it"):
        ptx(sine=True)


@pytest.mark.usefixtures("no_wheels")
def test_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wheel comes before CUDA_PATH, that before CUDA_HOME, and that before PATH."""
    names = ("nvidia/cu13", "nvidia/cu14", "path", "home", "on_path")
    for name in names:
        library, program = tmp_path / name / toolkit.LIBDEVICE, tmp_path / name / "bin" / "ptxas"
        for file in (library, program):
            file.parent.mkdir(parents=True)
            file.write_text("")
        program.chmod(0o755)

    def check(name: str) -> None:
        toolkit.default_libdevice.cache_clear(), ptxas.default.cache_clear()
        root = tmp_path / name
        assert toolkit.find_libdevice() == root / toolkit.LIBDEVICE
        assert ptxas.find() == str(root / "bin" / "ptxas")

    monkeypatch.setattr(toolkit, "_TRITON", "nowhere")  # Its package may be installed.
    assert toolkit.find_libdevice() is None and ptxas.find() is None
    monkeypatch.setenv("PATH", str(tmp_path / "on_path" / "bin"))
    check("on_path")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    check("home")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "path"))
    check("path")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    sys.path_importer_cache.pop(str(tmp_path), None)
    check("nvidia/cu14")


@pytest.mark.usefixtures("no_wheels")
def test_the_ptxas_of_the_package_of_triton_comes_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "triton" / "backends" / "nvidia" / "bin" / "ptxas"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert ptxas.find() == str(program)
