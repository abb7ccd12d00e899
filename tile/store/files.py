"""Files of the cache: written atomically, and checked to be written by nobody else.

Compiled kernels are code: a program for a CPU runs in this process with all its rights.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

SUFFIX = ".tmp"  # of files that are being written
_PRIVATE = 0o700
_READABLE = 0o644  # less what the umask takes
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


def read_regular(path: Path, limit: int = -1) -> bytes:
    """Read a file, or its first `limit` bytes.

    Raises `OSError`, also for a file that is not regular: reading a FIFO would wait for a writer.
    """
    with open(path, "rb", opener=_open_nonblocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read(limit)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, replacing an older one, and create its folder if necessary.

    It is written to a temporary file and renamed, which is atomic on every system. If several
    processes write the same file, each writes a whole one, and the last one stays. Raises
    `OSError`.
    """
    _make_private(path.parent)
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}{SUFFIX}")
    try:
        with open(temporary, "xb", opener=_open_readable) as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with access for their owner only."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=_PRIVATE, exist_ok=True)


def _open_readable(path: str, flags: int) -> int:
    return os.open(path, flags, _READABLE)


def exposure(path: Path, *, sticky: bool = False) -> str:
    """Return how another user might have written a file or folder; "" if none might.

    The administrator is trusted, and so is a path that does not exist. With `sticky`, others may
    add to a folder with the sticky bit, since they cannot rename or remove what is in it. Only
    systems with POSIX owners and modes are checked.

    Raises `OSError` where the path cannot be examined.
    """
    if not hasattr(os, "geteuid"):
        return ""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"{path} belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(status.st_mode)
        return f"other users can write to {path} (mode {mode:04o})"
    return ""
