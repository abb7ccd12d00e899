"""Backends without the packages that they need."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules[{missing!r}] = None  # as if it were not installed
from tile.tools.cli import main
sys.exit(main({words!r}))
"""

KERNEL = """
import tile
import tile.language as tl

@tile.jit
def copy(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i))
"""


def run(missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command line without a package."""
    code = PROGRAM.format(missing=missing, words=list(words))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def compile_for(target: str, missing: str, folder) -> subprocess.CompletedProcess[str]:
    (folder / "kernels.py").write_text(KERNEL)
    kernel = f"{folder}/kernels.py:copy"
    types = ("x=*fp32", "y=*fp32", "B=64", "--target", target, "-o", f"{folder}/out")
    return run(missing, "compile", kernel, *types)


def test_compiling_to_ptx_names_the_package(tmp_path) -> None:
    done = compile_for("sm_90a", "llvmlite", tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "error: the nvptx backend needs the package 'llvmlite', which is not installed; "
        "pip install 'tile-compiler[nvptx]' brings it"
    )


def test_compiling_to_opencl_needs_none(tmp_path) -> None:
    done = compile_for("opencl:amd", "pyopencl", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "__kernel" in (tmp_path / "out" / "copy.cl").read_text()


def test_devices_of_opencl_need_one(tmp_path) -> None:
    missing = "the opencl backend needs the package 'pyopencl', which is not installed"
    done = compile_for("opencl:0", "pyopencl", tmp_path)
    assert done.returncode == 1 and missing in done.stderr and "Traceback" not in done.stderr
    assert missing in run("pyopencl", "info", "opencl").stdout
