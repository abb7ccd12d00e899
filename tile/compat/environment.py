"""The environment that processes inherit from a program for which `tile` is Triton."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tile.config import read_environment, write_environment
from tile.triton_variables import TRITON

FOLDER = Path(__file__).parent / "path"
"""A folder for `PYTHONPATH`, in which Python finds a package `triton` that is this one."""
OFF = ("", "0")


def announced() -> str:
    """Return the version that the environment names, or an empty string."""
    text = read_environment(TRITON) or ""
    return "" if text in OFF else text


def announce(version: str) -> None:
    """Name the version in the environment, which makes Triton's variables take effect."""
    write_environment(TRITON, version)


def withdraw() -> None:
    """Remove the version from the environment."""
    write_environment(TRITON, None)


def extend_path() -> None:
    """Put the folder first on `PYTHONPATH`, for the processes that this one starts.

    It is on `sys.path` too, from which libraries make the path of their worker processes.
    """
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    folders = (read_environment("PYTHONPATH") or "").split(os.pathsep)
    rest = [folder for folder in folders if folder and folder != str(FOLDER)]
    write_environment("PYTHONPATH", os.pathsep.join([str(FOLDER), *rest]))
