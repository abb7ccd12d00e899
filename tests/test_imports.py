"""Imports between files form no circle, and packages list their files."""

import ast
import re
from pathlib import Path

import tile

PACKAGE = Path(tile.__file__).parent


def imports() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, anywhere in its file."""
    files = {_module(file): file for file in sorted(PACKAGE.rglob("*.py"))}
    graph = {}
    for module, file in files.items():
        names = {name for node in ast.walk(ast.parse(file.read_text())) for name in _names(node)}
        # `from tile.ir import types` imports a module, `from tile.ir.types import Tile` its name.
        targets = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = (targets & files.keys()) - {module}
    return graph


def _module(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _names(node: ast.AST) -> list[str]:
    """Return the dotted names that a statement imports: modules, or names of a module."""
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(str(module), names):
            return [f"{module}.{alias.name}" for alias in names]
        case _:
            return []


def circles(graph: dict[str, set[str]]) -> list[dict[str, set[str]]]:
    """Return the circles of a graph (its strongly connected components), with their edges."""
    reachable = {module: _reachable(graph, module) for module in graph}
    components = {
        frozenset(other for other in reachable[module] if module in reachable[other])
        for module in graph
    }
    return [{m: graph[m] & members for m in sorted(members)} for members in components if members]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    seen: set[str] = set()
    pending = [start]
    while pending:
        new = graph[pending.pop()] - seen
        seen |= new
        pending += new
    return seen


def test_circles() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set()}
    assert circles(graph) == [{"a": {"b"}, "b": {"c"}, "c": {"a"}}]


def test_files_import_in_no_circle() -> None:
    lines = [
        f"{module} imports {', '.join(sorted(targets))}"
        for circle in circles(imports())
        for module, targets in circle.items()
    ]
    assert not lines, "\n".join(["files import each other:", *lines])


def test_packages_list_their_files() -> None:
    """A docstring that lists files of a package, in columns, lists all modules, and no others."""
    for file in PACKAGE.rglob("__init__.py"):
        doc = ast.get_docstring(ast.parse(file.read_text())) or ""
        columns = re.findall(
            r"^([a-z_0-9]+(?:, [a-z_0-9]+)*)(?: {2,}\S|\n {4,}\S)", doc, re.MULTILINE
        )
        listed = {name for names in columns for name in names.split(", ")}
        files = [path for path in file.parent.iterdir() if not path.name.startswith("_")]
        modules = {path.stem for path in files if path.suffix == ".py" or path.is_dir()}
        if len(columns) > 2 and file.parent != PACKAGE / "ops" / "core":
            assert modules - listed == listed - {path.stem for path in files} == set(), file
