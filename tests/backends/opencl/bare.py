"""A machine that has a Python and what pip installed, and nothing else: a root folder of its own.

It holds the C library, those libraries that wheels may take for granted (PEP 513, which names
them), what the Python interpreter itself was linked with, and `/bin/sh`. The virtual environment
and this checkout are mounted into it, in a mount namespace that ends with the process; there is no
`/etc`, no network, and no other program.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyopencl

from tile.backends.opencl.devices import INTEL, installed

CHECKOUT = Path(__file__).parents[3]
# Of PEP 513's list those that are not for windows on a screen, and zlib, which later policies add.
GRANTED = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+|libz)\.so\.\d+"
)
KERNEL = (Path("/dev"), Path("/proc"), Path("/sys"))
LINKED = re.compile(r"(?:=> )?(/\S+) \(0x")
NAMESPACES = ("unshare", "--mount", "--propagation=private", "--net")
CHROOT = shutil.which("chroot", path=os.pathsep.join([os.defpath, "/usr/sbin", "/sbin"]))
AS_ROOT = ("--map-root-user",)


def isolation() -> list[str]:
    """The command that gives a process namespaces of its own; empty where none may be had.

    There it must be able to mount what a `BareMachine` mounts, and to change its root.
    """
    mounts = [f"mount --rbind {quote(path)} {quote(path)}" for path in KERNEL]
    script = " && ".join([*mounts, f"exec {CHROOT} / true"])
    for command in ([*NAMESPACES], [*NAMESPACES, *AS_ROOT]):
        if shutil.which(command[0]) and _succeeds([*command, "sh", "-euc", script]):
            return command
    return []


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def linked(files: Iterable[Path]) -> set[Path]:
    """The libraries that the loader finds for programs and libraries."""
    listed = subprocess.run(
        ["ldd", *map(str, files)], capture_output=True, encoding="utf-8", check=False
    )
    return {Path(found) for found in LINKED.findall(listed.stdout)}


def interpreters() -> Iterator[Path]:
    """The Python of the virtual environment: what its links lead to, one after the other."""
    path = Path(sys.executable)
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path


def quote(path: Path) -> str:
    """A path as the shell takes it."""
    return shlex.quote(os.fspath(path))


@dataclass(frozen=True)
class BareMachine:
    """The folder, and how a process gets into it."""

    root: Path
    isolation: list[str]

    def furnish(self) -> None:
        """Copy what the machine has, and make folders for what is mounted."""
        shell, libraries = Path("/bin/sh"), Path(sysconfig.get_path("stdlib"))
        programs = [shell, *interpreters()]
        needed = linked([*programs, *(libraries / "lib-dynload").glob("*.so")])
        wheels = [*Path(pyopencl.__file__).parent.rglob("*.so*"), installed(*INTEL)]
        granted = linked(wheel for wheel in wheels if wheel is not None)
        needed |= {path for path in granted if GRANTED.fullmatch(path.name)}
        for path in (*programs, *needed):
            self._within(path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self._within(path))
        for path in (*self._mounted(), Path("/tmp")):
            self._within(path).mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A process of this Python there, with these variables and hardly another."""
        mounts = [
            f"mount --rbind {quote(path)} {quote(self._within(path))}" for path in self._mounted()
        ]
        script = " && ".join([*mounts, f'exec {CHROOT} {quote(self.root)} "$@"'])
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHONPATH": str(CHECKOUT)}
        return subprocess.run(
            [*self.isolation, "sh", "-euc", script, "sh", sys.executable, *arguments],
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    def _mounted(self) -> tuple[Path, ...]:
        library = Path(sysconfig.get_path("stdlib"))
        return (*KERNEL, library, Path(sys.prefix), CHECKOUT)

    def _within(self, path: Path) -> Path:
        return self.root / os.fspath(path).lstrip("/")
