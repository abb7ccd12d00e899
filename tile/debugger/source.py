"""Files as the debugger knows them, and which of their lines programs can stop at."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from functools import cache
from pathlib import Path


def canonical(file: str) -> str:
    """One spelling for a file."""
    return file if file.startswith("<") else os.path.realpath(file)


@cache
def _canonical(file: str) -> str:
    return canonical(file)


def same_file(a: str, b: str) -> bool:
    """Whether two names are of one file."""
    return a == b or _canonical(a) == _canonical(b)


def shown(file: str) -> str:
    """A file as messages name it: from the current folder, if it lies below that."""
    if file.startswith("<"):
        return file
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def find(name: str, near: str | None) -> str | None:
    """The file that a user means: by path, beside the file `near`, or a module's of that name."""
    names = [name] if name.endswith(".py") else [name, f"{name}.py"]
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
    """The lines where statements of functions begin, and the functions' names."""
    found: dict[int, str] = {}
    for function in functions(file):
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node is not function and not _is_text(node):
                found.setdefault(node.lineno, function.name)
    return found


def functions(file: str) -> list[ast.FunctionDef]:
    """The functions of a file, as far as it can be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def refusal(file: str, line: int) -> str | None:
    """Why no program can stop at a line, and where one could instead; None where it can."""
    lines = linecache.getlines(file)
    if not 1 <= line <= len(lines):
        return f"{shown(file)} has {len(lines)} lines, and no line {line}"
    known = statements(file)
    if line in known:
        return None
    text = lines[line - 1].strip()
    what = "no statement of a function begins there"
    if not text or text.startswith("#"):
        what = "it is blank, or a comment"
    after = min((number for number in known if number > line), default=None)
    before = max((number for number in known if number < line), default=None)
    near = [f"line {n} has `{lines[n - 1].strip()}`" for n in (before, after) if n is not None]
    return f"no program stops at line {line}: {what}" + (f" ({'; '.join(near)})" if near else "")
