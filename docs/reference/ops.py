"""The page on `tile.ops`, docs/ops.md, from the docstrings of its files and functions; its stub.

The speed is that of the greatest problem of a function that `benchmarks/ops.py --record` has
written to docs/results/ops.json.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import tile.ops
from docs.reference.stubs import template
from tile.ops.core.autograd import is_differentiable

Function = Callable[..., Any]
Record = dict[str, Any]
RECORDS = Path(__file__).parents[1] / "results/ops.json"
NO_SPEED = "not recorded"
NOT_MEASURED = {"enable", "use"}  # no ops


def ops_page() -> Iterator[str]:
    """Yield the lines of the page: a table of all functions, then a section for each file."""
    yield template("ops.txt")
    functions = sorted(
        (getattr(tile.ops, name) for name in tile.ops.__all__),
        key=lambda function: (function.__module__, function.__name__),
    )
    files = {
        module: list(group) for module, group in groupby(functions, key=lambda f: f.__module__)
    }
    records = read_records(RECORDS)
    yield f"{_machines(records)}\n"
    yield "| function | file | speed |"
    yield "| --- | --- | --- |"
    for module, group in files.items():
        for function in group:
            name = function.__name__
            speed = "" if name in NOT_MEASURED else speed_of(name, records)
            yield f"| `{name}` | [{_title(module)}](../{_path(module)}) | {speed} |"
    for module, group in files.items():
        yield f"\n## {_title(module)}\n"
        yield inspect.getdoc(sys.modules[module]) or ""
        for function in group:
            yield f"\n### `tile.ops.{function.__name__}({_parameters(function)})`\n"
            yield inspect.getdoc(function) or ""
            if is_differentiable(function):
                yield "\nIt is differentiable in PyTorch's autograd."


def ops_stub_page() -> Iterator[str]:
    """Yield the lines of `tile/ops/__init__.pyi`: the import of each function."""
    yield template("ops_stub.txt")
    sources = vars(tile.ops)["SOURCES"]
    for name in tile.ops.__all__:
        yield f"from {sources[name]} import {name} as {name}"


def read_records(path: Path) -> Sequence[Record]:
    """Return the rows that `benchmarks/ops.py --record` has written; none without a file."""
    rows: list[Record] = json.loads(path.read_text("utf-8")) if path.exists() else []
    return rows


def speed_of(name: str, records: Sequence[Record]) -> str:
    """Return the rate of a function's greatest problem, and its ratio to that of the peer."""
    rows = [row for row in records if row["op"] == name]
    if not rows:
        return NO_SPEED
    row = max(rows, key=lambda row: float(row["work"]))
    peer = f", {row['tile'] / row['peer']:.2f} of the peer's" if row["peer"] else ""
    return f"{row['label']}: {row['tile']:g} {row['unit']}{peer}"


def _machines(records: Sequence[Record]) -> str:
    """Return where and when the rows were recorded."""
    runs = sorted({(row["date"], row["machine"]) for row in records})
    if not runs:
        return "No speed is recorded yet."
    text = "; ".join(f"{date}, {machine}" for date, machine in runs)
    return f"Speed was recorded on {text}. The peer is PyTorch's own operator."


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
