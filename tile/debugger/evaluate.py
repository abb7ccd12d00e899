"""Expressions over the variables of a frame, evaluated by NumPy."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tile.debugger.frames import Frame, HostFrame, KernelFrame
from tile.debugger.variables import Leaf, Undefined, whole
from tile.errors import ArgumentValueError
from tile.language.base.builtin import suggestion

# Exceptions that evaluating or printing a user's expression may raise: all but those by which the
# debugger ends or restarts. Ctrl-C ends the command only.
FAILURES = (Exception, SystemExit, GeneratorExit)


class Grid:
    """`tl.program_id` and `tl.num_programs` of one program."""

    def __init__(self, frame: KernelFrame) -> None:
        launch = frame.batch.launch
        self._coordinates = launch.coordinates(frame.row)
        self._grid = launch.grid

    def program_id(self, axis: int) -> int:
        """Return the program's coordinate along an axis of the grid."""
        return self._coordinates[axis]

    def num_programs(self, axis: int) -> int:
        """Return the extent of the grid along an axis."""
        return self._grid[axis]


def namespace(
    frame: KernelFrame, names: set[str], user_variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the names that have one. Raises `MissingError`."""
    grid = Grid(frame)
    values: dict[str, Any] = {"np": np, "tl": grid, **user_variables}
    values |= {"program_id": grid.program_id, "num_programs": grid.num_programs}
    for name in names & frame.variables.keys():
        values[name] = whole(frame.variables[name], frame.reader)
    return values


def names_of(code: types.CodeType) -> set[str]:
    """Return the names that code may look up, including code of functions inside it."""
    inner = (names_of(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)


def evaluate(text: str, frame: Frame | None, user_variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression in a frame; `user_variables` are those the user assigned.

    Raises one of `FAILURES`.
    """
    code = compile(text.strip(), "<debugger>", "eval")
    values = _variables(frame, code, user_variables)
    try:
        return eval(code, values)
    except NameError as error:
        if not isinstance(frame, KernelFrame):
            raise
        hint = suggestion(error.name or "", frame.variables)
        raise NameError(f"{error}{hint}", name=error.name) from None


def _variables(
    frame: Frame | None, code: types.CodeType, user_variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the names that code in a frame may look up. Raises `MissingError`."""
    if isinstance(frame, KernelFrame):
        return namespace(frame, names_of(code), user_variables)
    if isinstance(frame, HostFrame):
        return {**frame.frame.f_globals, **frame.frame.f_locals, **user_variables}
    return {"np": np, **user_variables}


def undefined(text: str, frame: Frame | None) -> Undefined | None:
    """Return the undefined elements of a variable; None if the expression is anything else."""
    if not isinstance(frame, KernelFrame):
        return None
    leaf = frame.variables.get(text.strip())
    if not isinstance(leaf, Leaf) or leaf.type is None:
        return None
    return frame.reader.undefined(leaf.type, leaf.registers[0])


def execute(text: str, frame: Frame | None, user_variables: dict[str, Any]) -> None:
    """Run a statement; the names that it assigns become variables of the user.

    Raises one of `FAILURES`; also if it assigns a variable of the kernel, which cannot change.
    """
    tree = ast.parse(text)
    assigned = set(_assigned(tree))
    read_only = assigned & frame.variables.keys() if isinstance(frame, KernelFrame) else set()
    if read_only:
        raise ArgumentValueError(
            f"`{min(read_only)}` is a variable of the kernel, which the debugger cannot change; "
            "take another name"
        )
    code = compile(tree, "<debugger>", "exec")
    values = _variables(frame, code, user_variables)
    exec(code, values)
    user_variables.update({name: values[name] for name in assigned if name in values})


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
