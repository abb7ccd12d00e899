"""Tiles that programs share: loads that read each one once, and dots of them.

In a matmul, all programs of a row of the grid load one tile of `a`, and all programs of a column
one tile of `b`. A load whose addresses tell so gives a `Repeated`, which has each tile once, and a
dot multiplies tiles of rows by tiles of columns without a copy for each program. Every other
operation sees an array with a copy for each program.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tile.backends.interp.bytecode import Run, rule_in
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Elements, ResolvedAccess, Strided
from tile.backends.interp.shifted_reads import seen_read
from tile.backends.interp.translate import Rules, pure, semantics_of
from tile.backends.interp.values import (
    Affine,
    Array,
    Repeated,
    RunValue,
    array_of,
    full,
    is_true,
    optional_array,
)
from tile.backends.interp.virtual_memory import Memory
from tile.ir.core import Operation
from tile.ir.ops import dot, memory

RULES: Rules = {}


rule = rule_in(RULES)

# Fewer elements are copied faster than a repetition is found.
LEAST_ELEMENTS = 256


class Repetition(NamedTuple):
    """The grid of programs in which offsets repeat, the axis that they vary on, and those there."""

    rows: int
    columns: int
    along: int
    offsets: Array


def repetition(offsets: Array) -> Repetition | None:
    """Return how the offsets of programs repeat, or None if they do not."""
    programs = len(offsets)
    if programs < 4 or offsets.size != programs:
        return None
    line = offsets.reshape(-1)
    first = line == line[0]
    if first[1]:
        columns = int(first.argmin())
        if not columns or programs % columns:
            return None
        table = line.reshape(-1, columns)
        if (table != table[:, :1]).any():
            return None
        return Repetition(len(table), columns, 0, offsets[::columns])
    columns = int(first[1:].argmax()) + 1
    if not first[columns] or programs % columns:
        return None
    table = line.reshape(-1, columns)
    return (
        None if (table != table[0]).any() else Repetition(len(table), columns, 1, offsets[:columns])
    )


@rule(memory.load)
def load(op: Operation) -> Run:
    """Read each tile once if programs share them; in a loop, as in the iteration before."""
    elements = Elements.of(op)
    shared = not elements.element.is_ptr() and math.prod(elements.shape) >= LEAST_ELEMENTS
    loops = op.in_loop

    def run(
        batch: ProgramBatch, address: RunValue, mask: RunValue | None, other: RunValue | None
    ) -> Array | Repeated:
        memory = batch.launch.memory
        active = optional_array(mask)
        if not shared:
            return memory.load(address, active, optional_array(other), elements)
        key = None
        if loops and type(address) is Affine and is_true(active):
            key, seen = op, memory.seen.get(op)
            values = None if seen is None else seen.moved(address)
            if values is not None:
                return values
        return read_repeated(memory, address, active, optional_array(other), elements, key)

    return run


def read_repeated(
    launch_memory: Memory,
    address: RunValue,
    mask: Array | None,
    other: Array | None,
    elements: Elements,
    key: Operation | None = None,
) -> Array | Repeated:
    """Load elements as `Memory.load` does; each tile once if programs share them.

    key: the load, if later iterations may repeat it at a distance.
    """
    access = launch_memory.resolve(address, mask, elements)
    strided = access.strided
    repeats = None
    if strided is not None and strided.flat.size and (other is None or len(other) == 1):
        repeats = repetition(strided.offsets)
    if repeats is not None:
        assert strided is not None
        s = strided  # `replace` would take longer than the rest
        strided = Strided(s.flat, repeats.offsets, s.steps, s.extents, s.part, s.buffer)
        access = ResolvedAccess(elements, address, mask, strided)
    values = launch_memory.read(access, other)
    shared = None if repeats is None else (repeats.rows, repeats.columns, repeats.along)
    if key is not None and launch_memory.seen.get(key, key) is not None:
        assert isinstance(address, Affine)
        seen = None if strided is None else seen_read(address, strided, shared)
        launch_memory.seen[key] = seen
    return values if shared is None else Repeated(values, *shared)


@rule(dot.dot)
def multiply(op: Operation) -> Run:
    """Multiply tiles of rows of the grid by tiles of its columns, or of all programs."""
    plain, product = pure(op), semantics_of(op)
    shapes = [operand.type.shape for operand in op.inputs]

    def run(batch: ProgramBatch, *operands: Any) -> Any:
        grid = common_grid(operands)
        if grid is None:
            return plain(batch, *operands)
        arrays = [in_grid(x, grid, shape) for x, shape in zip(operands, shapes, strict=True)]
        result = product(*arrays)
        return result.reshape(-1, *result.shape[2:])

    return run


def common_grid(operands: tuple[Any, ...]) -> tuple[int, int] | None:
    """Return the grid in which operands of a dot are repeated, if `a` and `b` together fill it."""
    a, b, _ = operands
    shared = [x for x in (a, b) if type(x) is Repeated]
    if not shared:
        return None
    grid = shared[0].rows, shared[0].columns
    if len(shared) == 2:
        other = shared[1]
        fills = grid == (other.rows, other.columns) and shared[0].along != other.along
    else:
        rest = array_of(b if shared[0] is a else a)
        fills = len(rest) == grid[0] * grid[1]
    return grid if fills else None


def in_grid(value: Any, grid: tuple[int, int], shape: tuple[int, ...]) -> Array:
    """Return a value with two axes of programs, each of which may have extent 1."""
    if type(value) is Repeated:
        values = full(value.values, shape)
        return values[:, None] if value.along == 0 else values[None]
    array = full(value, shape)
    return array.reshape(*(grid if len(array) > 1 else (1, 1)), *shape)
