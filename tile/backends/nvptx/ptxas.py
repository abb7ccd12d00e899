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
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable
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


class Assembly:
    """A run of ptxas, which goes on while the program does something else.

    An object that nothing refers to any more ends the run.
    """

    def __init__(self, ptx: str, arch: str, program: str) -> None:
        """Start it; `program` is the path of ptxas. Wait for the oldest run if many go on."""
        self._inputs = (ptx, arch, program)
        self._folder = Path(tempfile.mkdtemp(prefix="tile-ptxas-"))
        source, self._cubin = self._folder / "kernel.ptx", self._folder / "kernel.cubin"
        options = ["-v", "-lineinfo", f"-arch={arch}", *shlex.split(config.ptxas_options)]
        try:
            source.write_text(ptx)
            with (self._folder / "report").open("w") as report:
                self._process = subprocess.Popen(
                    [program, *options, str(source), "-o", str(self._cubin)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=report,
                )
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._result: tuple[bytes, str] | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _end, self._process, self._folder, self._owner)
        _admit(self)

    def wait(self) -> None:
        """Wait until ptxas ends."""
        if os.getpid() == self._owner:
            self._process.wait()

    def result(self) -> tuple[bytes, str]:
        """Return a cubin, and what ptxas reports: registers, spills, memory.

        Wait for ptxas. Raises `BackendError` if it rejects the PTX.
        """
        with self._lock:
            if self._result is None:
                if os.getpid() == self._owner:
                    self._result = self._read()
                else:  # the process belongs to the one that was forked
                    self._result = assemble(*self._inputs)
            return self._result

    def _read(self) -> tuple[bytes, str]:
        _, arch, program = self._inputs
        status = self._process.wait()
        report = (self._folder / "report").read_text(errors="replace")
        if status:
            raise BackendError(f"{program} refuses a kernel for {arch}", notes=[report[:1000]])
        if config.print_ptxas:
            sys.stdout.write(report)
        code = self._cubin.read_bytes()
        self._end()
        return code, report


def _end(process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    """End a run of ptxas in the process that started it, and remove its files."""
    if os.getpid() == owner:
        if process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _admitted() -> deque[weakref.ref[Assembly]]:
    """Return the runs that may still go on, oldest first."""
    return deque()


def _admit(started: Assembly) -> None:
    """Let as many runs go on as there are processors."""
    runs = _admitted()
    runs.append(weakref.ref(started))
    while len(runs) > (os.cpu_count() or 1):
        oldest = runs.popleft()()
        if oldest is not None:
            oldest.wait()


def assemble(ptx: str, arch: str, program: str) -> tuple[bytes, str]:
    """Return what `Assembly.result` does."""
    return Assembly(ptx, arch, program).result()


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
    return start_cubin(ptx, kernel, arch, driver_version)()


def start_cubin(
    ptx: str, kernel: str, arch: str, driver_version: int
) -> Callable[[], bytes | None]:
    """Start what `cubin` does, and return a function that waits for it, and returns its result."""
    options = config.ptxas_options
    asked = bool(options or config.print_ptxas)
    cache = current_cache()
    if cache is None and not asked:
        return _nothing
    key = "\n".join([_CUBIN, str(driver_version), arch, kernel, *filter(None, [options]), ptx])
    entry = None if cache is None or config.print_ptxas else cache.get(key)
    if entry is not None and _CUBIN in entry.parts:
        return functools.partial(entry.parts.get, _CUBIN)
    program = find()
    if program is None and asked:
        raise BackendError(
            "ptxas, of which options or the output are asked for, was not found; "
            "pip install nvidia-cuda-nvcc brings it"
        )
    if program is None:
        return _nothing
    assembly = Assembly(ptx, arch, program)

    def finish() -> bytes | None:
        try:
            code, report = assembly.result()
        except BackendError:
            if asked:
                raise
            return None
        warn_of_spills(report, kernel, arch)
        if cache is not None:
            cache.put(key, CacheEntry(f"{kernel}, assembled for {arch}", {}, {_CUBIN: code}))
        return code

    return functools.cache(finish)


def _nothing() -> None:
    """Return None, for kernels that stay PTX."""
