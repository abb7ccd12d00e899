"""Properties of the whole package."""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tile
from tile.simt.target import TARGETS

ROOT = Path(tile.__file__).parent
PASSES = [
    path
    for folder in ("simt", "transforms")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "hopper" not in path.parts and path != ROOT / "simt" / "target.py"
]
EXAMPLES = [path for path in sorted((ROOT / "simt").rglob("*.py")) if ">>> " in path.read_text()]
MACHINES = {name.upper() for name in TARGETS}


def decisions_by_name(source: str) -> Iterator[str]:
    """Yield the places where code depends on a target's name other than in a message.

    Passes ask for features (`target.shuffles`), so that a new target needs nothing but a description.
    """
    module = ast.parse(source)
    shown = {
        part
        for text in ast.walk(module)
        if isinstance(text, ast.JoinedStr)
        for part in ast.walk(text)
    }
    for node in ast.walk(module):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr="name"):
                is_use = owner == "target" and node not in shown
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="target")]):
                is_use = node not in shown
            case ast.Compare(left=left, comparators=others):
                is_use = any(map(_is_a_name, (left, *others)))
            case ast.MatchValue(value=value):
                is_use = _is_a_name(value)
            case _:
                is_use = False
        if is_use:
            yield f"{node.lineno}: {ast.unparse(node)}"


def _is_a_name(node: ast.expr) -> bool:
    """Return True for a described machine (`GENERIC`), a text such as `sm_90`, or several."""
    match node:
        case ast.Name(id=name):
            return name in MACHINES
        case ast.Constant(value=str(text)):
            return text.startswith("sm_")
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(map(_is_a_name, elements))
    return False


def test_no_pass_decides_by_the_name_of_a_target() -> None:
    decisions = {
        str(path.relative_to(ROOT)): list(decisions_by_name(path.read_text())) for path in PASSES
    }
    assert {path: places for path, places in decisions.items() if places} == {}
    assert len(decisions) > 40


@pytest.mark.parametrize(
    "code",
    [
        "wide = target is WARP64",
        "if self.target.name.startswith('s'): pass",
        "if target in (PLAIN, GENERIC): pass",
        "if str(target) in names: pass",
        "hopper = arch == 'sm_90a'",
        "x = arch in {'sm_90', 'sm_90a'}",
        "match arch:\n    case 'sm_90a': pass",
    ],
)
def test_decisions_by_name_are_seen(code: str) -> None:
    assert list(decisions_by_name(code))


def test_messages_may_name_a_target() -> None:
    code = "raise ValueError(f'{target.name} has {target.registers} registers on {str(target)}')"
    assert list(decisions_by_name(code)) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_true(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    module = importlib.import_module(name.removesuffix(".__init__"))
    assert doctest.testmod(module, report=True).failed == 0


def test_the_tutorial_has_examples() -> None:
    layout = importlib.import_module("tile.simt.layouts.linear_layout")
    assert doctest.testmod(layout).attempted > 15
