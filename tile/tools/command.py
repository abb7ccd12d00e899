"""Common parts of subcommands: kernels and programs by their files, and tables.

`run_program` runs a user's program as Python would.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.errors import ArgumentValueError

if TYPE_CHECKING:
    from tile.triton_c import Program, load
else:  # it needs a library that nothing else needs
    load = lazy_import("tile.triton_c", "load")


TRITON_C = ".tc"  # how the names of Triton-C files end


def load_triton_c(path: Path | str, values: Mapping[str, Any]) -> Program:
    """Load a Triton-C file; `values` are those that its host statements name."""
    return load(path, **values)


def load_kernel(text: str, values: Mapping[str, Any] | None = None) -> Any:
    """Return the object that `file.py:name` names, or `file.tc:name`, a kernel in Triton-C.

    `values` are those that the host statements of a Triton-C file name. Raises `ArgumentValueError`
    if there is no such file or name, or if the file ends the process.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier():
        raise ArgumentValueError(f"a kernel is named as in file.py:function, not {text!r}")
    if not path.is_file():
        raise ArgumentValueError(f"there is no file {file}")
    if path.suffix == TRITON_C:
        return _kernel_of(load_triton_c(path, values or {}), file, name)
    if values:
        raise ArgumentValueError(f"--define is for Triton-C files, and {file} is a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # as if Python ran the file
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as ending:
        raise ArgumentValueError(
            f"{file} ends the process when it is imported; code that runs it as a program belongs"
            " under `if __name__ == '__main__':`"
        ) from ending
    return _kernel_of(module, file, name)


def _kernel_of(owner: Any, file: str, name: str) -> Any:
    if not hasattr(owner, name):
        raise ArgumentValueError(f"{file} has no {name}")
    return getattr(owner, name)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Format a table: columns are right-aligned, except those whose indices are in `left`."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def text(line: list[str]) -> str:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([text(lines[0]), "  ".join("-" * w for w in widths), *map(text, lines[1:])])


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
