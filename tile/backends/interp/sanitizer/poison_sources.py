"""Operations that create poison: their results may be undefined, wrapped or strayed.

A *source* wraps what an instruction runs on plain values, and poisons elements of the result.
`overflow.py` has those of numbers that wrapped. A pointer strayed if it left the window of its
array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tile.backends.interp.bytecode import Run
from tile.backends.interp.sanitizer.overflow import SOURCES as WRAPPING
from tile.backends.interp.sanitizer.overflow import Source
from tile.backends.interp.sanitizer.poison import Cause, PoisonKind, add_poison
from tile.backends.interp.values import RunValue, array_of, full
from tile.backends.interp.virtual_memory import WINDOW_BITS
from tile.checks import Check, Checks
from tile.ir.core import Operation
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, indexing, memory
from tile.ir.overflow import NARROW_BITS
from tile.ir.types import Scalar

# An offset below this many bytes from an element of a window's array stays in the window.
NEAR = 1 << (WINDOW_BITS - 2)


def checked_source(op: Operation, run: Run, checks: Checks) -> Run:
    """Return the function on plain operands, with the sources of the active checks."""
    for check, applies, make in SOURCES:
        if check in checks and applies(op):
            run = make(op, run)
    return run


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
        return add_poison(result, PoisonKind.STRAYED, strayed, cause)

    return instruction


def undefined_variable(op: Operation, run: Run) -> Run:
    """Poison a variable that has no value on this path."""
    cause = Cause(op.loc, "a variable that has no value on this path")
    where = np.ones((1,) * (1 + op.results[0].type.rank), np.bool_)
    return lambda batch: add_poison(run(batch), PoisonKind.UNDEFINED, where, cause)


def _divides_integers(op: Operation) -> bool:
    element = op.results[0].type.element if op.results else None
    whole = isinstance(element, Scalar) and element.is_int()
    return op.has_trait(Trait.DIVISION) and whole


def division_by_zero(op: Operation, run: Run) -> Run:
    """Poison quotients of integers by zero, which are undefined."""
    cause = Cause(op.loc, "an integer divided by zero")

    def instruction(batch: Any, x: RunValue, y: RunValue) -> Any:
        return add_poison(run(batch, x, y), PoisonKind.UNDEFINED, array_of(y) == 0, cause)

    return instruction


def gather_out_of_range(op: Operation, run: Run) -> Run:
    """Poison elements gathered from positions out of range, which are undefined."""
    extent = op.inputs[0].type.shape[op["axis"]]
    cause = Cause(op.loc, f"tl.gather at a position outside 0 to {extent - 1}")

    def instruction(batch: Any, x: RunValue, position: RunValue) -> Any:
        positions = array_of(position)
        return add_poison(
            run(batch, x, position),
            PoisonKind.UNDEFINED,
            (positions < 0) | (positions >= extent),
            cause,
        )

    return instruction


def scatter_to_other_positions(op: Operation, run: Run) -> Run:
    """Poison the axes whose positions are not all of their positions."""
    axis, shape = op["axis"], op.inputs[0].type.shape
    extent = shape[axis]
    cause = Cause(op.loc, f"tl.scatter to other positions than each of 0 to {extent - 1}")

    def instruction(batch: Any, x: RunValue, position: RunValue) -> Any:
        positions = np.sort(full(position, shape), axis)
        expected = np.arange(extent).reshape(-1, *(1,) * (-1 - axis))
        wrong = (positions != expected).any(axis=axis, keepdims=True)
        return add_poison(
            run(batch, x, position),
            PoisonKind.UNDEFINED,
            np.broadcast_to(wrong, positions.shape),
            cause,
        )

    return instruction


def rank_out_of_range(op: Operation, run: Run) -> Run:
    """Poison all ranks of a tile with an element out of range."""
    bins, shape = op["bins"], op.inputs[0].type.shape
    cause = Cause(op.loc, f"tl.rank of an element outside 0 to {bins - 1}")

    def instruction(batch: Any, x: RunValue) -> Any:
        elements = full(x, shape)
        wrong = ((elements < 0) | (elements >= bins)).any(axis=-1, keepdims=True)
        poisoned = np.broadcast_to(wrong, elements.shape)
        return add_poison(run(batch, x), PoisonKind.UNDEFINED, poisoned, cause)

    return instruction


SOURCES: tuple[tuple[Check, Callable[[Operation], bool], Source], ...] = (
    *((Check.OVERFLOW, applies, make) for applies, make in WRAPPING),
    (Check.BOUNDS, lambda op: op.defn is memory.addptr, straying_pointers),
    (Check.UNDEF, lambda op: op.defn is arith.poison, undefined_variable),
    (Check.UNDEF, _divides_integers, division_by_zero),
    (Check.UNDEF, lambda op: op.defn is indexing.gather, gather_out_of_range),
    (Check.UNDEF, lambda op: op.defn is indexing.scatter, scatter_to_other_positions),
    (Check.UNDEF, lambda op: op.defn is indexing.rank, rank_out_of_range),
)
