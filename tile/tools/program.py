"""Run a user's program from a command of `tile`, as Python would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tile.errors import ArgumentValueError


@contextmanager
def _started_with(arguments: Sequence[str], folder: str) -> Iterator[None]:
    """Set `sys.argv` and the first entry of `sys.path` inside the `with` block."""
    argv, path = sys.argv[:], sys.path[:]
    sys.argv[:] = arguments
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path


def run_program(name: str, arguments: Sequence[str], *, module: bool = False) -> int:
    """Run a file, or a module by its name, as the main program; return its exit status.

    Raises what the program raises, and `ArgumentValueError` if there is no such file.
    """
    try:
        if module:
            with _started_with([name, *arguments], ""):
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            path = Path(name)
            if not path.is_file():
                raise ArgumentValueError(f"there is no program {name}")
            with _started_with([name, *arguments], str(path.resolve().parent)):
                runpy.run_path(name, run_name="__main__")
    except SystemExit as exit_:
        return _status(exit_.code)
    return 0


def _status(code: object) -> int:
    """Return the exit status of an argument of `sys.exit`; print it if it is a message."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code)
    print(code, file=sys.stderr)
    return 1
