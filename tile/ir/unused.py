"""Erase operations whose results have no uses.

The frontend erases them in functions that run on elements of tiles, where only some operations are
allowed: code that asks for the type of a value, as in `is_floating(x)`, leaves operations behind
that nothing uses. Passes use `transforms/dce.py`, which also finds dead loop-carried values.
"""

from __future__ import annotations

from collections.abc import Mapping

from tile.ir.core import Block, Function, Operation
from tile.ir.effects import is_removable
from tile.ir.ops import control

Functions = Mapping[str, Function]


def erase_unused(block: Block, functions: Functions) -> None:
    """Erase the unused operations of a block and of its regions, and of functions it calls.

    A call is erased if the called function, which is one of `functions`, has no effects.
    """
    _erase(block, functions, set())


def _erase(block: Block, functions: Functions, seen: set[str]) -> None:
    for op in reversed(list(block)):
        for region in op.regions:
            _erase(region, functions, seen)
        if op.defn is control.call:
            _erase_called(op["callee"], functions, seen)
        if not any(result.uses for result in op.results) and _removable(op, functions):
            op.erase()


def _erase_called(name: str, functions: Functions, seen: set[str]) -> None:
    """Erase the unused operations of a function, each function once."""
    if name in functions and name not in seen:
        seen.add(name)
        _erase(functions[name].body, functions, seen)


def _removable(op: Operation, functions: Functions) -> bool:
    """Return True if an operation has no effects but its results; calls are looked into."""
    if op.defn is not control.call:
        return is_removable(op)
    called = functions.get(op["callee"])
    return called is not None and all(
        inner.defn.terminator or _removable(inner, functions) for inner in called.body
    )
