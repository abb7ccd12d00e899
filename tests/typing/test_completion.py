"""Editors complete and show the members that values really have."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
from pathlib import Path
from typing import Any

import pytest

import tile
import tile.language as tl
from tile.language.base.builtin import DESCRIPTOR_MEMBERS, MEMBERS
from tile.language.tensor_methods import DESCRIPTOR_PROPERTIES, PROPERTIES

KERNEL = """\
import tile
import tile.language as tl

@tile.jit
def helper(x, n, BLOCK: tl.constexpr = 4):
    return x + n

@tile.jit
def kernel(p, BLOCK: tl.constexpr):
    x = tl.load(p)
    desc = tl.make_tensor_descriptor(p, [8, 8], [8, 1], [8, 8])
    """


@pytest.fixture(scope="module")
def stub() -> ast.Module:
    return ast.parse((Path(tl.__file__).with_suffix(".pyi")).read_text("utf-8"))


def script(text: str) -> tuple[Any, int, int]:
    jedi = pytest.importorskip("jedi")
    source = KERNEL + text
    project = jedi.Project(Path(tile.__file__).parents[1])
    environment = jedi.InterpreterEnvironment()
    lines = source.splitlines()
    return jedi.Script(source, project=project, environment=environment), len(lines), len(lines[-1])


def completed(text: str) -> set[str]:
    """The public names that are offered at the end of a kernel that ends in `text`."""
    made, line, column = script(text)
    return {c.name for c in made.complete(line, column) if not c.name.startswith("_")}


def signatures(text: str) -> list[str]:
    made, line, column = script(text)
    return [signature.to_string() for signature in made.get_signatures(line, column)]


def members(stub: ast.Module, name: str) -> set[str]:
    (cls,) = (node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {d.name for d in cls.body if isinstance(d, ast.FunctionDef) and d.name[:2] != "__"}


def test_declared_members_are_those_that_kernels_find(stub: ast.Module) -> None:
    assert members(stub, "Tensor") == {*PROPERTIES, "T", *MEMBERS}
    assert members(stub, "tensor_descriptor") == {*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_MEMBERS}


def test_declared_names_are_those_of_the_language(stub: ast.Module) -> None:
    bound: set[str] = set()
    for node in ast.walk(stub):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.add(node.target.id)
    assert set(tl.__all__) <= bound


@pytest.mark.parametrize("value", ["x", "x[:, None]", "(x + 1)", "x.sum(0)", "tl.zeros([4], 3)"])
def test_a_value_is_completed(value: str) -> None:
    names = completed(f"{value}.")
    assert names >= {*PROPERTIES, "T", *MEMBERS}
    assert "load" not in names


def test_a_descriptor_is_completed() -> None:
    names = completed("desc.")
    assert names >= {*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_MEMBERS}
    assert "sum" not in names


def test_the_language_is_completed() -> None:
    assert completed("tl.") >= set(tl.__all__)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("tl.load(", "load(pointer: Tensor, mask: "),
        ("tl.math.exp(", "exp(x: "),
        ("x.sum(", "sum(axis: Any=None, keep_dims: bool=False, dtype: Any=None) -> Tensor"),
        ("desc.load(", "load(offsets: "),
        ("helper(", "helper(x, n, BLOCK: tl.constexpr=4)"),
    ],
)
def test_signatures_are_shown(call: str, expected: str) -> None:
    (shown,) = signatures(call)
    assert shown.startswith(expected) and "build" not in shown and "P." not in shown


@pytest.mark.parametrize("function", [tl.load, tl.max, tl.math.exp, tl.make_tensor_descriptor])
def test_help_shows_the_signature_and_the_docstring(function: Any) -> None:
    text = pydoc.plain(pydoc.render_doc(function))
    # From Python 3.13 on, each parameter of a long signature is on a line of its own.
    for several, one in ((r"\(\n +", "("), (r"\n\)", ")"), (r",\n +", ", ")):
        text = re.sub(several, one, text)
    assert f"\n{function.name}({str(inspect.signature(function))[1:]}\n" in text
    assert inspect.getdoc(function).splitlines()[0] in text and "P.args" not in text


def test_a_kernel_has_the_signature_of_its_function() -> None:
    def add(x_ptr, n, BLOCK: tl.constexpr = 4):
        """Add."""

    kernel = tile.jit(add)
    assert inspect.signature(kernel) == inspect.signature(add)
    assert "P.args" not in str(inspect.signature(type(kernel).__call__))
    with pytest.raises(AttributeError, match="'JITFunction' object has no attribute 'no_such'"):
        kernel.no_such
