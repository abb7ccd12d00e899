"""Sources of poison: operations whose results may be undefined, wrapped or strayed.

Each source wraps what an instruction runs on plain values, and poisons elements of its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tile.backends.interp.checks.marked import Cause, Mark, add_poison
from tile.backends.interp.checks.wrapping import SOURCES as WRAPPING
from tile.backends.interp.memory import WINDOW_BITS
from tile.backends.interp.values import RunValue, array_of
from tile.checks import Check, Checks
from tile.ir.core import Operation
from tile.ir.exact import NARROW_BITS
from tile.ir.ops import arith, index, memory
from tile.ir.types import Scalar

Run = Callable[..., Any]
Source = Callable[[Operation, Run], Run]

# An offset below this many bytes from an element of a window's array stays in the window.
NEAR = 1 << (WINDOW_BITS - 2)


def checked_source(op: Operation, run: Run, checks: Checks) -> Run:
    """Return what an instruction runs on plain operands, with the sources of the active checks."""
    for check, applies, make in SOURCES:
        if check in checks and applies(op):
            run = make(op, run)
    return run


# -- pointers that leave their window


def _is_addptr(op: Operation) -> bool:
    return op.defn is memory.addptr


def straying_pointers(op: Operation, run: Run) -> Run:
    """Poison pointers that an offset moved from the window of one array to another's."""
    stride = op["stride"]
    offset_type = op.inputs[1].type.element
    if isinstance(offset_type, Scalar) and offset_type.bits <= NARROW_BITS:
        return run

    def instruction(batch: Any, pointer: RunValue, offset: RunValue) -> Any:
        result = run(batch, pointer, offset)
        offsets = array_of(offset)
        if max(abs(int(offsets.min())), abs(int(offsets.max()))) * stride < NEAR:
            return result
        before, after = array_of(pointer), array_of(result)
        strayed = (before >> WINDOW_BITS) != (after >> WINDOW_BITS)
        buffer = batch.launch.memory.buffer_at(int(before.flat[0]))
        name = "another array" if buffer is None else f"`{buffer.name}`"
        cause = Cause(op.loc, f"made of a pointer into {name}")
        return add_poison(result, Mark.STRAYED, strayed, cause)

    return instruction


# -- undefined results


def _is_poison(op: Operation) -> bool:
    return op.defn is arith.poison


def undefined_variable(op: Operation, run: Run) -> Run:
    """Poison a variable that has no value on this path."""
    cause = Cause(op.loc, "a variable that has no value on this path")
    where = np.ones((1,) * (1 + op.results[0].type.rank), np.bool_)
    return lambda batch: add_poison(run(batch), Mark.UNDEFINED, where, cause)


def _divides_integers(op: Operation) -> bool:
    element = op.results[0].type.element if op.results else None
    whole = isinstance(element, Scalar) and element.is_int()
    return op.defn in (arith.div, arith.rem) and whole


def division_by_zero(op: Operation, run: Run) -> Run:
    """Poison quotients of integers by zero, which are undefined."""
    cause = Cause(op.loc, "an integer divided by zero")

    def instruction(batch: Any, x: RunValue, y: RunValue) -> Any:
        return add_poison(run(batch, x, y), Mark.UNDEFINED, array_of(y) == 0, cause)

    return instruction


def _is_gather(op: Operation) -> bool:
    return op.defn is index.gather


def gather_out_of_range(op: Operation, run: Run) -> Run:
    """Poison elements gathered from positions out of range, which are undefined."""
    extent = op.inputs[0].type.shape[op["axis"]]
    cause = Cause(op.loc, f"tl.gather at a position outside 0 to {extent - 1}")

    def instruction(batch: Any, x: RunValue, position: RunValue) -> Any:
        positions = array_of(position)
        return add_poison(
            run(batch, x, position), Mark.UNDEFINED, (positions < 0) | (positions >= extent), cause
        )

    return instruction


SOURCES: tuple[tuple[Check, Callable[[Operation], bool], Source], ...] = (
    *((Check.OVERFLOW, applies, make) for applies, make in WRAPPING),
    (Check.BOUNDS, _is_addptr, straying_pointers),
    (Check.UNDEF, _is_poison, undefined_variable),
    (Check.UNDEF, _divides_integers, division_by_zero),
    (Check.UNDEF, _is_gather, gather_out_of_range),
)
