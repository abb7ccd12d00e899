"""Modules from files on command lines, IR text or Triton-C, and the text that a command writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tile.errors import ArgumentValueError
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.tools.command import TRITON_C, load_triton_c

SEPARATOR = "// -----"


def triton_c_file(name: str) -> tuple[str, str] | None:
    """Return the path and the kernel, "" for all, of `file.tc` or `file.tc:kernel`, or None."""
    file, _, kernel = name.partition(f"{TRITON_C}:")
    if kernel:
        return file + TRITON_C, kernel
    return (name, "") if name.endswith(TRITON_C) else None


def modules(
    name: str, values: Mapping[str, Any], *, split: bool = False
) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of a file: of IR text, or of a Triton-C file.

    `values` are those that a Triton-C file takes. With `split`, the chunks of IR text between
    separators are modules of their own.
    """
    triton_c = triton_c_file(name)
    if triton_c is not None:
        yield from _triton_c_modules(*triton_c, values)
        return
    if values:
        raise ArgumentValueError("--define is for Triton-C files")
    text, file = _read(name)
    for chunk in chunks(text) if split else [text]:
        yield partial(parse_module, chunk, file)


def _triton_c_modules(
    path: str, name: str, values: Mapping[str, Any]
) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of a Triton-C file's kernels, or of the one named.

    A tunable that `values` does not give has its first value in the file.
    """
    kernels = list(load_triton_c(path, values))
    if name and name not in [kernel.__name__ for kernel in kernels]:
        raise ArgumentValueError(f"{path} has no kernel {name}")
    for kernel in kernels:
        if not name or kernel.__name__ == name:
            yield kernel.module


def chunks(text: str) -> Iterator[str]:
    """Yield the chunks of a text between separators, padded with empty lines at the front.

    The padding preserves the line numbers of the whole text.
    """
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.rstrip() == SEPARATOR:
            yield "".join(lines)
            lines = ["\n"] * (number + 1)
        else:
            lines.append(line)
    yield "".join(lines)


def _read(file: str) -> tuple[str, str]:
    """Return the text, and the name of the file for messages."""
    if file == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentValueError(f"cannot read {file}: {error}") from error


def write(text: str, file: str | None) -> None:
    """Write text to a file, or for None to the standard output."""
    if file is None:
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentValueError(f"cannot write {file}: {error}") from error
