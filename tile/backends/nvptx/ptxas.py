"""Assemble PTX to cubins by ptxas, without a driver, and cache them on disk.

Where there is no ptxas, a kernel stays PTX, which the driver compiles.

Assembling takes longer than everything else in a first call. The compiler in the driver is as good,
and caches its results where it can write, but it gives no access to the binary. The linker in the
driver does, but only for relocatable code: ptxas does less to save registers in a kernel that may
be linked with others (89 instead of 64 in a layer norm of 16384 columns and 16 warps), which lowers
occupancy. nvJitLink, which assembles in the process, is no better: with the compiler of the same
version (13.0) it gave 10 of 16 kernels of TorchInductor more registers (96 instead of 72), and
saved 5 of the 14 ms that a small kernel takes.
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tile.backends.nvptx.toolkit import named, roots
from tile.cache import CacheEntry, current_cache
from tile.config import config
from tile.errors import BackendError, PerformanceWarning
from tile.tracebacks import warn


def find() -> str | None:
    """Return the path of ptxas: as set, in a wheel or a CUDA toolkit, or on PATH; or None."""
    return str(named("TILE_PTXAS", config.ptxas)) if config.ptxas else default()


@functools.cache
def default() -> str | None:
    """Return the path of ptxas in a wheel or a CUDA toolkit, or on PATH; or None."""
    programs = (shutil.which("ptxas", path=str(root / "bin")) for root in roots())
    return next(filter(None, programs), None) or shutil.which("ptxas")


def assemble(ptx: str, arch: str, program: str) -> tuple[bytes, str]:
    """Return a cubin, and what ptxas reports: registers, spills, memory. `program` is its path.

    Raises `BackendError` if it rejects the PTX.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        options = ["-v", "-lineinfo", f"-arch={arch}", *shlex.split(config.ptxas_options)]
        command = [program, *options, str(source), "-o", str(cubin)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            notes = [process.stderr[:1000]]
            raise BackendError(f"{program} refuses a kernel for {arch}", notes=notes)
        if config.print_ptxas:
            sys.stdout.write(process.stderr)
        return cubin.read_bytes(), process.stderr


# Fewer bytes are usually spilled outside of loops.
MANY_SPILLED_BYTES = 256


def warn_of_spills(report: str, kernel: str, arch: str) -> None:
    """Warn if ptxas reports that each thread of a kernel stores many registers to memory."""
    spilled = max(map(int, re.findall(r"(\d+) bytes spill stores", report)), default=0)
    if spilled >= MANY_SPILLED_BYTES:
        warn(
            f"each thread of {kernel} stores more than {MANY_SPILLED_BYTES - 1} bytes of registers "
            f"to memory on {arch}, and loads them again; take smaller tiles, more warps "
            "(num_warps), fewer stages, or a greater maxnreg if the launch sets one",
            category=PerformanceWarning,
        )


_CUBIN = "cubin of a whole program"


def cubin(ptx: str, kernel: str, arch: str, driver_version: int) -> bytes | None:
    """Return a cubin from the disk cache or ptxas; None without a cache, or if ptxas fails.

    The driver explains better than ptxas what is wrong with rejected PTX. `driver_version` is that
    of the driver that loads the cubin. If ptxas has options that are set, or is to print, it runs
    without a cache too, and its failure is an error.
    """
    options = config.ptxas_options
    asked = bool(options or config.print_ptxas)
    cache = current_cache()
    if cache is None and not asked:
        return None
    key = "\n".join([_CUBIN, str(driver_version), arch, kernel, *filter(None, [options]), ptx])
    entry = None if cache is None or config.print_ptxas else cache.get(key)
    if entry is not None and _CUBIN in entry.parts:
        return entry.parts[_CUBIN]
    program = find()
    if program is None and asked:
        raise BackendError(
            "ptxas, of which options or the output are asked for, was not found; "
            "pip install nvidia-cuda-nvcc brings it"
        )
    if program is None:
        return None
    try:
        code, report = assemble(ptx, arch, program)
    except BackendError:
        if asked:
            raise
        return None
    warn_of_spills(report, kernel, arch)
    if cache is not None:
        cache.put(key, CacheEntry(f"{kernel}, assembled for {arch}", {}, {_CUBIN: code}))
    return code
