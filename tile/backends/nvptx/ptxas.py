"""Assemble PTX to cubins by ptxas, without a driver, and cache them on disk.

Where there is no ptxas, a kernel stays PTX, which the driver compiles.

Assembling takes longer than everything else in a first call. The compiler in the driver is as good,
and caches its results where it can write, but it gives no access to the binary. The linker in the
driver does, but only for relocatable code: ptxas does less to save registers in a kernel that may
be linked with others (89 instead of 64 in a layer norm of 16384 columns and 16 warps), which lowers
occupancy.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.backends.nvptx import driver
from tile.cache import CacheEntry, current_cache
from tile.errors import BackendError, ExecutionError

if TYPE_CHECKING:
    from cuda.pathfinder import find_nvidia_binary_utility
else:  # a kernel whose cubin is on disk needs no ptxas
    find_nvidia_binary_utility = lazy_import("cuda.pathfinder", "find_nvidia_binary_utility")


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


_CUBIN = "cubin of a whole program"


def load(
    ptx: str, kernel: str, device: driver.Device, shared_bytes: int, *, cooperative: bool
) -> driver.Loaded:
    """Load a kernel on a device, which is the current one."""
    cubin = _cubin(ptx, kernel, device)
    if cubin is not None:
        try:
            return driver.Loaded(cubin, kernel, shared_bytes, cooperative=cooperative)
        except (BackendError, ExecutionError):
            pass  # a driver that is older than ptxas may reject its cubins
    return driver.Loaded(driver.image(ptx), kernel, shared_bytes, cooperative=cooperative)


def _cubin(ptx: str, kernel: str, device: driver.Device) -> bytes | None:
    """Return a cubin from the disk cache or ptxas; None without a cache, or if ptxas fails.

    The driver explains better than ptxas what is wrong with rejected PTX.
    """
    cache = current_cache()
    if cache is None:
        return None
    key = "\n".join([_CUBIN, str(driver.version()), device.architecture, kernel, ptx])
    entry = cache.get(key)
    if entry is not None and _CUBIN in entry.parts:
        return entry.parts[_CUBIN]
    program = find()
    if program is None:
        return None
    try:
        cubin, _ = assemble(ptx, device.architecture, program)
    except BackendError:
        return None
    cache.put(
        key,
        CacheEntry(f"{kernel}, assembled for {device.architecture}", {}, {_CUBIN: cubin}),
    )
    return cubin
