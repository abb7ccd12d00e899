"""The page on `tile.ops`, docs/ops.md, from the docstrings of its files and functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import tile.ops
from tile.ops.core.autograd import is_differentiable
from tile.tools.stub import template

Function = Callable[..., Any]


def ops_page() -> Iterator[str]:
    """Yield the lines of the page: a table of all functions, then a section for each file."""
    yield template("ops.md")
    functions = sorted(
        (getattr(tile.ops, name) for name in tile.ops.__all__),
        key=lambda function: (function.__module__, function.__name__),
    )
    files = {
        module: list(group) for module, group in groupby(functions, key=lambda f: f.__module__)
    }
    yield "| file | functions |"
    yield "| --- | --- |"
    for module, group in files.items():
        names = ", ".join(f"`{function.__name__}`" for function in group)
        yield f"| [{_title(module)}](../{_path(module)}) | {names} |"
    for module, group in files.items():
        yield f"\n## {_title(module)}\n"
        yield inspect.getdoc(sys.modules[module]) or ""
        for function in group:
            yield f"\n### `tile.ops.{function.__name__}({_parameters(function)})`\n"
            yield inspect.getdoc(function) or ""
            if is_differentiable(function):
                yield "\nIt is differentiable in PyTorch's autograd."


def _title(module: str) -> str:
    """Return the family and the file: `rowwise/softmax`."""
    return module.removeprefix("tile.ops.").replace(".", "/")


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _parameters(function: Function) -> str:
    """Return the parameters without their types, which are all arrays and numbers."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters)).strip("()")
