"""ptxas, where it is installed: cubins without a driver."""

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
else:  # a kernel whose cubin is on disk needs no ptxas
    find_nvidia_binary_utility = late("cuda.pathfinder", "find_nvidia_binary_utility")


@functools.cache
def find() -> str | None:
    """Return the path of ptxas: in the wheel `nvidia-cuda-nvcc`, a CUDA toolkit, or on PATH."""
    path: str | None = find_nvidia_binary_utility("ptxas") or shutil.which("ptxas")
    return path


def assemble(ptx: str, arch: str, program: str) -> tuple[bytes, str]:
    """Return a cubin, and what ptxas reports: registers, spills, memory. `program` is its path.

    Raises `BackendError` if it rejects the PTX.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [program, "-v", "-lineinfo", f"-arch={arch}", str(source), "-o", str(cubin)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            notes = [process.stderr[:1000]]
            raise BackendError(f"{program} refuses a kernel for {arch}", notes=notes)
        return cubin.read_bytes(), process.stderr
