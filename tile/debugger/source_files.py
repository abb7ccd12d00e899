"""Source files, and the lines at which programs can stop."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tile._lazy import lazy_import
from tile.errors import CompilationError

if TYPE_CHECKING:
    from tile.frontend.triton_c.translate import functions as triton_c_functions
else:  # it needs a library that nothing else needs
    triton_c_functions = lazy_import("tile.frontend.triton_c.translate", "functions")

TRITON_C = ".tc"


def canonical(file: str) -> str:
    """Return the canonical path of a file."""
    return file if file.startswith("<") else os.path.realpath(file)


@cache
def _canonical(file: str) -> str:
    return canonical(file)


def same_file(a: str, b: str) -> bool:
    """Return True if two names are of one file."""
    return a == b or _canonical(a) == _canonical(b)


def display_path(file: str) -> str:
    """Return a file as messages name it: relative to the current folder, if it is below that."""
    if file.startswith("<"):
        return file
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def find(name: str, near: str | None) -> str | None:
    """Return the file that a user means: by path, next to the file `near`, or by module name."""
    names = [name] if name.endswith((".py", TRITON_C)) else [name, f"{name}.py"]
    folders = [Path.cwd(), *([Path(near).parent] if near else []), *map(Path, sys.path)]
    for candidate in names:
        for folder in folders:
            path = folder / candidate
            if path.is_file():
                return canonical(str(path))
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return canonical(file) if file else None


def statements(file: str) -> dict[int, str]:
    """Return the lines where statements of functions begin, with the names of the functions."""
    lines: dict[int, str] = {}
    for function in functions(file):
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node is not function and not _is_docstring(node):
                lines.setdefault(node.lineno, function.name)
    return lines


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: str) -> Sequence[Function]:
    """Return the functions of a file; none if it cannot be parsed."""
    text = "".join(linecache.getlines(file))
    try:
        if file.endswith(TRITON_C):
            return triton_c_functions(file, text)
        tree = ast.parse(text)
    except (SyntaxError, CompilationError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def span(function: Function) -> tuple[int, int]:
    """Return the numbers of a function's first line, decorators included, and of its last."""
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    return first, max(getattr(node, "end_lineno", 0) for node in ast.walk(function))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def why_no_stop(file: str, line: int) -> str | None:
    """Return why no program can stop at a line, and where one could; None if it can stop there."""
    lines = linecache.getlines(file)
    if not 1 <= line <= len(lines):
        return f"{display_path(file)} has {len(lines)} lines, and no line {line}"
    stops = statements(file)
    if line in stops:
        return None
    text = lines[line - 1].strip()
    reason = "no statement of a function begins there"
    if not text or text.startswith(("#", "//")):
        reason = "it is blank, or a comment"
    after = min((number for number in stops if number > line), default=None)
    before = max((number for number in stops if number < line), default=None)
    near = [f"line {n} has `{lines[n - 1].strip()}`" for n in (before, after) if n is not None]
    return f"no program stops at line {line}: {reason}" + (f" ({'; '.join(near)})" if near else "")
