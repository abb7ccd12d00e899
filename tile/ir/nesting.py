"""Errors for too deeply nested code: the compiler walks regions recursively on Python's stack."""

from __future__ import annotations

from tile.errors import CompilationError
from tile.ir.core import Block
from tile.ir.module import Module
from tile.location import Loc


def nesting_error(loc: Loc | None) -> CompilationError:
    """Return the error for source or IR that is nested more deeply than Python's stack allows."""
    return CompilationError(
        "this is nested too deeply to be compiled; an `elif` counts as nested in the `if` before "
        "it, and a function as nested in its caller. Compute parts in statements of their own, or "
        "choose from a table in memory",
        loc=loc,
    )


def deepest_location(module: Module) -> Loc | None:
    """Return the location of a most deeply nested operation; works without recursion."""
    loc: Loc | None = None
    blocks: list[Block] = [function.body for function in module]
    while blocks:
        inner: list[Block] = []
        for block in blocks:
            for op in block.ops:
                loc = op.loc or loc
                inner.extend(op.regions)
        blocks = inner
    return loc
