"""Runtimes that the loader does not find by itself.

The loader in pyopencl's wheel reads `*.icd` files, each with the path of a library, from the folder
that OCL_ICD_VENDORS names, else from /etc/OpenCL/vendors; PoCL and Oclgrind from pip put theirs
where it looks anyway. Intel's runtime from pip is never found, since its own file holds a path of
the machine that it was made on, and NVIDIA's driver may come without a file. So a folder is made
with the system's files and those for what else is there, for as long as the loader reads it.

PoCL calls `ld` for every kernel, and ends the process where there is none, or no C compiler whose
libraries it could link. It is given one of our own there, `linker.py`.
"""

from __future__ import annotations

import atexit
import ctypes
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
POCL = "Portable Computing Language"  # by the names of their platforms
OCLGRIND = "Oclgrind"
# Where PoCL looks for `ld` first.
TOOLS = "COMPILER_PATH"
# PoCL tells LLVM that iterations of its loops over work-items are independent. What LLVM 14 then
# makes of them in vectors is wrong for 3 of 5,440 random kernels, and for none where they are left
# loops; a matrix product is as fast.
WORK_ITEMS = ("POCL_WORK_GROUP_METHOD", "loops")


@contextmanager
def visible() -> Iterator[None]:
    """Let the loader see all runtimes while it first looks; a user's own setting is kept."""
    os.environ.setdefault(*WORK_ITEMS)  # noqa: TID251 - PoCL's variable, not ours
    if TOOLS not in os.environ and not _has_linker():  # noqa: TID251 - PoCL's variable, not ours
        os.environ[TOOLS] = _own_linker()  # noqa: TID251
    if VARIABLE in os.environ:  # noqa: TID251 - the loader's variable, not ours
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tile-opencl-") as folder:
        _fill(Path(folder))
        os.environ[VARIABLE] = folder  # noqa: TID251
        try:
            yield
        finally:
            del os.environ[VARIABLE]  # noqa: TID251


def _has_linker() -> bool:
    return all(map(shutil.which, ("ld", "cc")))


def _own_linker() -> str:
    """A folder with our linker as `ld`, for as long as this process runs."""
    folder = Path(tempfile.mkdtemp(prefix="tile-linker-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "ld"
    command = f"{quote(sys.executable)} -S -E {quote(linker.__file__)}"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return str(folder)


def _fill(folder: Path) -> None:
    for file in SYSTEM.glob("*.icd") if SYSTEM.is_dir() else ():
        shutil.copy(file, folder / file.name)
    known = "".join(file.read_text() for file in folder.iterdir())
    intel = installed(*INTEL)
    if intel is not None and intel.name not in known:
        (folder / "pip-intel.icd").write_text(f"{intel}\n")
    if "nvidia" not in known and _loads(NVIDIA):
        (folder / "nvidia.icd").write_text(f"{NVIDIA}\n")


def installed(distribution: str, library: str) -> Path | None:
    """A library of a distribution that pip has installed."""
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return None
    found = next((file for file in files if file.name == library), None)
    return None if found is None else Path(str(found.locate())).resolve()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
