"""Expressions over the variables of a frame, evaluated as NumPy."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tile.debugger.frames import Frame, HostFrame, KernelFrame
from tile.debugger.values import Leaf, Undefined, whole
from tile.errors import ArgumentValueError
from tile.language.builtin import suggestion

# What evaluating or showing a user's expression may raise: anything but what the debugger raises
# itself to leave or to begin again. Ctrl-C ends the command, and no more.
FAILURES = (Exception, SystemExit, GeneratorExit)


class Grid:
    """`tl.program_id` and `tl.num_programs` of one program."""

    def __init__(self, frame: KernelFrame) -> None:
        launch = frame.wave.launch
        self._place = launch.coordinates(frame.row)
        self._grid = launch.grid

    def program_id(self, axis: int) -> int:
        """The program's place along an axis of the grid."""
        return self._place[axis]

    def num_programs(self, axis: int) -> int:
        """How many programs the grid has along an axis."""
        return self._grid[axis]


def namespace(frame: KernelFrame, names: set[str], own: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these names, as far as there are such. Raises `MissingError`."""
    grid = Grid(frame)
    found: dict[str, Any] = {"np": np, "tl": grid, **own}
    found |= {"program_id": grid.program_id, "num_programs": grid.num_programs}
    for name in names & frame.variables.keys():
        found[name] = whole(frame.variables[name], frame.reader)
    return found


def names_of(code: types.CodeType) -> set[str]:
    """The names that code may look up, those of functions inside it too."""
    inner = (names_of(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)


def evaluate(text: str, frame: Frame | None, own: Mapping[str, Any]) -> Any:
    """The value of an expression where a frame stands; `own` are the user's names.

    Raises one of `FAILURES`.
    """
    code = compile(text.strip(), "<debugger>", "eval")
    if isinstance(frame, HostFrame):
        return eval(code, frame.frame.f_globals, {**frame.frame.f_locals, **own})
    if not isinstance(frame, KernelFrame):
        return eval(code, {"np": np, **own})
    names = names_of(code)
    known = namespace(frame, names, own)
    try:
        return eval(code, known)
    except NameError as error:
        near = suggestion(error.name or "", frame.variables)
        raise NameError(f"{error}{near}", name=error.name) from None


def undefined(text: str, frame: Frame | None) -> Undefined | None:
    """What is undefined of a variable, if the expression is one and nothing else."""
    if not isinstance(frame, KernelFrame):
        return None
    leaf = frame.variables.get(text.strip())
    if not isinstance(leaf, Leaf) or leaf.type is None:
        return None
    return frame.reader.undefined(leaf.type, leaf.registers[0])


def execute(text: str, frame: Frame | None, own: dict[str, Any]) -> None:
    """Run a statement; what it assigns become the user's own names.

    Raises one of `FAILURES`; also where it assigns a variable of the kernel, which cannot change.
    """
    tree = ast.parse(text)
    assigned = set(_assigned(tree))
    known = assigned & frame.variables.keys() if isinstance(frame, KernelFrame) else set()
    if known:
        raise ArgumentValueError(
            f"`{min(known)}` is a variable of the kernel, and the debugger only looks at those; "
            "take another name"
        )
    code = compile(tree, "<debugger>", "exec")
    if isinstance(frame, KernelFrame):
        around = namespace(frame, names_of(code), own)
    elif isinstance(frame, HostFrame):
        around = {**frame.frame.f_globals, **frame.frame.f_locals, **own}
    else:
        around = {"np": np, **own}
    exec(code, around)
    own.update({name: around[name] for name in assigned if name in around})


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
