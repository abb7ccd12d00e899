"""Limits of nesting: the compiler walks regions by recursion, as deep as Python's stack allows."""

from __future__ import annotations

from tile.errors import CompilationError, Loc
from tile.ir.core import Block, Module


def too_deep(loc: Loc | None) -> CompilationError:
    """The error for source or IR in which more is nested than Python's stack has room for."""
    return CompilationError(
        "this is nested too deeply to be compiled; an `elif` counts as nested in the `if` before "
        "it, and a function as nested in its caller. Compute parts in statements of their own, or "
        "choose from a table in memory",
        loc=loc,
    )


def deepest(module: Module) -> Loc | None:
    """The place of an operation that is nested as deeply as any; found without recursion."""
    found: Loc | None = None
    blocks: list[Block] = [function.body for function in module]
    while blocks:
        inner: list[Block] = []
        for block in blocks:
            for op in block.ops:
                found = op.loc or found
                inner.extend(op.regions)
        blocks = inner
    return found
