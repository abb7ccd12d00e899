"""NVIDIA's assembler, where it is installed: cubins without a driver."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tile.errors import BackendError
from tile.late import late

if TYPE_CHECKING:
    from cuda.pathfinder import find_nvidia_binary_utility
else:  # who finds a kernel's binary on disk needs no assembler
    find_nvidia_binary_utility = late("cuda.pathfinder", "find_nvidia_binary_utility")


@functools.cache
def find() -> str | None:
    """Where ptxas is: in the wheel `nvidia-cuda-nvcc`, a CUDA toolkit, or on the path."""
    found: str | None = find_nvidia_binary_utility("ptxas") or shutil.which("ptxas")
    return found


def assemble(ptx: str, arch: str, program: str) -> tuple[bytes, str]:
    """A cubin, and what `program`, which is ptxas, says of it: registers, spills, memory.

    Raises `BackendError` where it refuses the text.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [program, "-v", "-lineinfo", f"-arch={arch}", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BackendError(f"{program} refuses a kernel for {arch}", notes=[done.stderr[:1000]])
        return cubin.read_bytes(), done.stderr
