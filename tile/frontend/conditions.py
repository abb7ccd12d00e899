"""Conditions: compile-time booleans or i1 values."""

from __future__ import annotations

import ast

from tile.errors import CompilationError
from tile.frontend.state import Flag, Lowering
from tile.frontend.unread import warn_unread
from tile.ir.ops import arith
from tile.ir.types import I1, Descriptor, Pointer
from tile.language import iterators
from tile.language.known import compile_time_bool, constant_value, static_truth
from tile.language.tensor import Tensor


def truth(low: Lowering, node: ast.expr, statement: str) -> Flag:
    """Return the condition of an `if` or `while`.

    A compile-time value, or a scalar that is a constant in the IR, becomes a Python bool. Raises
    `CompilationError` for a tile, a descriptor and a pointer.
    """
    value = low.expression(node)
    if isinstance(value, iterators.condition):
        if compile_time_bool(value.disable_licm, "the disable_licm of tl.condition"):
            warn_unread(low.at(node), ("disable_licm",), "tl.condition")
        value = value.condition
    if isinstance(value, Tensor):
        number = constant_value(value)
        if number is None:
            return _runtime(low, node, value, statement)
        value = number
    with low.errors_at(node):
        return static_truth(value, f"the condition of `{statement}`")


def _runtime(low: Lowering, node: ast.expr, value: Tensor, statement: str) -> Flag:
    loc = low.at(node)
    if value.shape:
        raise CompilationError(
            f"`{statement}` takes one condition, and this is a whole tile of type {value.type}",
            loc=loc,
            notes=[
                "to choose element by element write tl.where(condition, a, b)",
                "to ask whether any element is true write tl.max(condition.to(tl.int32)) != 0",
            ],
        )
    if isinstance(value.type, Descriptor):
        raise CompilationError(
            f"`{statement}` takes a number as its condition, not a descriptor, {value.type}",
            loc=loc,
        )
    if isinstance(value.dtype, Pointer):
        raise CompilationError(
            f"`{statement}` takes a number as its condition, not the pointer {value.type}; to ask "
            "whether it is null write ptr.to(tl.int64) != 0",
            loc=loc,
        )
    if value.dtype == I1:
        return value.value
    return low.build(arith.cast, value.value, to=I1)
