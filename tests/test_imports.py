"""Imports between files of the package form no circle, imports of types included."""

import ast
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
