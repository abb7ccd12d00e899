"""Writing a file so that other processes see all of it or nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SUFFIX = ".tmp"  # of files that are being written


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, in the place of an older one if there is one; its folder is made if need be.

    It is written aside and renamed, which is one step on every system; of several processes that
    write the same file, each puts a whole one there, and the last one stays. Raises `OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.urandom(8).hex()}{SUFFIX}")
    try:
        with aside.open("xb") as file:
            file.write(data)
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
