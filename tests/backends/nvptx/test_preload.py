"""The thread that loads LLVM and libdevice while the first kernel of a process is lowered."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading, time

import kernels
import tile
from tile.backends.nvptx import backend

# The thread is still at work when the process forks.
real, started = backend._load, threading.Event()

def load():
    started.set()
    time.sleep(0.5)
    real()

backend._load = load
thread = backend._loading()
assert backend._loading() is thread and started.wait(60)
child = os.fork()
if not child:
    tile.compile(kernels.sine, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx:sm_90a")
    os._exit(0)
assert not thread.is_alive()
assert "tile.backends.nvptx.libdevice" in sys.modules
assert os.waitpid(child, 0)[1] == 0
"""

KERNELS = """
import tile
import tile.language as tl


@tile.jit
def sine(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.sin(tl.load(x_ptr + i)))
"""

WITHOUT_LIBDEVICE = """
import kernels
import tile
from tile.errors import BackendError

try:
    tile.compile(kernels.sine, {"x_ptr": "*fp32"}, {"B": 64}, target="nvptx:sm_90a")
except BackendError as error:
    print(error.message)
"""


def run(folder, program, **env):
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, folder / "program.py"],
        env={**os.environ, "TILE_CACHE_DIR": str(folder / "cache"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_fork_waits_for_the_thread(tmp_path) -> None:
    pytest.importorskip("llvmlite")
    run(tmp_path, PROGRAM)


def test_the_kernel_reports_what_the_thread_cannot_load(tmp_path) -> None:
    pytest.importorskip("llvmlite")
    done = run(tmp_path, WITHOUT_LIBDEVICE, TILE_LIBDEVICE=str(tmp_path / "none.bc"))
    assert "TILE_LIBDEVICE" in done.stdout and "there is no such file" in done.stdout
    assert not done.stderr
