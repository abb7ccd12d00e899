"""Make OpenCL runtimes visible that the ICD loader does not find by itself.

The loader in pyopencl's wheel reads `*.icd` files, each with the path of a library, from the folder
that OCL_ICD_VENDORS names, else from /etc/OpenCL/vendors. PoCL and Oclgrind from pip install theirs
where the loader looks anyway. It never finds Intel's runtime from pip, whose own file holds a path
of the machine that it was built on, and NVIDIA's driver may come without a file. We therefore
create a temporary folder with the system's files and files for the other runtimes, which lives as
long as the loader reads it.

PoCL calls `ld` for every kernel, and ends the process if there is none, or no C compiler with
libraries to link. On such machines it gets our own linker, `linker.py`.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from shlex import quote

from tile.backends.opencl import linker

VARIABLE = "OCL_ICD_VENDORS"
SYSTEM = Path("/etc/OpenCL/vendors")
INTEL = ("intel-opencl-rt", "libintelocl.so")
NVIDIA = "libnvidia-opencl.so.1"
POCL = "Portable Computing Language"  # platform names
INTEL_OPENCL = "Intel(R) OpenCL"
OCLGRIND = "Oclgrind"
# The variable with the folder where PoCL looks for `ld` first.
TOOLS = "COMPILER_PATH"
# PoCL tells LLVM that iterations of its work-item loops are independent. LLVM 14 then vectorizes
# 3 of 5,440 random kernels wrongly, and none with plain loops. A matmul is as fast.
WORK_ITEMS = ("POCL_WORK_GROUP_METHOD", "loops")
# Two passes of Intel's compiler 2026.2 are skipped. `x86-scalar-to-vector` miscompiles a scalar
# bitwise not on CPUs with AVX-512: for VPCMPEQD, which sets all bits of a vector register, it
# selects the opcode whose result is a mask. `sycl-kernel-reduce-cross-barrier-values` crashes on
# some kernels. A matmul is as fast without the two.
_OPTIONS = {
    "opt-disable": "x86-scalar-to-vector,sycl-kernel-reduce-cross-barrier-values",
    "opt-bisect-verbose": "false",  # otherwise `opt-disable` prints every pass
}
PASSES = (
    "CL_CONFIG_LLVM_OPTIONS",
    " ".join(f"-{option}={value}" for option, value in _OPTIONS.items()),
)


@contextmanager
def visible() -> Iterator[None]:
    """Let the loader see all runtimes while it enumerates them. A user's own settings win."""
    os.environ.setdefault(*WORK_ITEMS)  # noqa: TID251 - PoCL's variable, not ours
    if TOOLS not in os.environ and not _has_linker():  # noqa: TID251 - PoCL's variable, not ours
        os.environ[TOOLS] = _own_linker()  # noqa: TID251
    if VARIABLE in os.environ:  # noqa: TID251 - the loader's variable, not ours
        _skip_passes(Path(os.environ[VARIABLE]))  # noqa: TID251
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tile-opencl-") as folder:
        _write_icd_files(Path(folder))
        _skip_passes(Path(folder))
        os.environ[VARIABLE] = folder  # noqa: TID251
        try:
            yield
        finally:
            del os.environ[VARIABLE]  # noqa: TID251


def settings() -> list[str]:
    """Return the environment variables that affect runtimes' machine code, with their values."""
    names = (WORK_ITEMS[0], PASSES[0])
    return [f"{name}={os.environ.get(name, '')}" for name in names]  # noqa: TID251


def _skip_passes(folder: Path) -> None:
    """Let Intel's compiler skip faulty passes. A user's own options win.

    The compiler ends the process on an unknown option, so each library must contain all of them.
    """
    libraries = _intel_libraries(folder)
    if libraries and all(map(_knows_options, libraries)):
        os.environ.setdefault(*PASSES)  # noqa: TID251 - Intel's variable, not ours


def _intel_libraries(folder: Path) -> list[Path]:
    """Return the libraries of Intel's runtime that the `*.icd` files of a folder name."""
    lines = [line.strip() for file in folder.glob("*.icd") for line in file.read_text().split("\n")]
    return [Path(line) for line in lines if Path(line).name.startswith(INTEL[1])]


def _knows_options(library: Path) -> bool:
    """Return True if the names of all options are among a library's strings."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return all(m.find(b"\0%s\0" % option.encode()) >= 0 for option in _OPTIONS)
    except OSError:
        return False


def _has_linker() -> bool:
    return all(map(shutil.which, ("ld", "cc")))


def _own_linker() -> str:
    """Create a folder with our linker as `ld`; it is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="tile-linker-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "ld"
    command = f"{quote(sys.executable)} -S -E {quote(linker.__file__)}"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return str(folder)


def _write_icd_files(folder: Path) -> None:
    """Copy the system's `*.icd` files, and add those of Intel's runtime and NVIDIA's driver."""
    for file in SYSTEM.glob("*.icd") if SYSTEM.is_dir() else ():
        shutil.copy(file, folder / file.name)
    libraries = "".join(file.read_text() for file in folder.iterdir())
    intel = installed(*INTEL)
    if intel is not None and intel.name not in libraries:
        (folder / "pip-intel.icd").write_text(f"{intel}\n")
    if "nvidia" not in libraries and _loads(NVIDIA):
        (folder / "nvidia.icd").write_text(f"{NVIDIA}\n")


def installed(distribution: str, library: str) -> Path | None:
    """Return the path of a library in a distribution that pip installed; None without it."""
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == library)
    return next(paths, None)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
