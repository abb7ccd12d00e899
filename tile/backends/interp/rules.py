"""Rules of operations with effects.

A rule returns, for an operation, what its instruction runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.atomic_updates import compare_and_swap, exchange, update_in_order
from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.cluster_values import gathered
from tile.backends.interp.fault_report import first_true
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import BufferLanes, Elements
from tile.backends.interp.translate import Rules, pure
from tile.backends.interp.values import (
    Array,
    RunValue,
    array_of,
    broadcast_rows,
    is_true,
    optional_array,
)
from tile.backends.interp.virtual_memory import Memory
from tile.errors import DeviceAssertionError
from tile.ir.core import Operation
from tile.ir.ops import arith, debug, memory, program

RULES: Rules = {}


rule, runs = rule_in(RULES), runs_in(RULES)


@runs(program.program_id)
def program_id(op: Operation, batch: ProgramBatch) -> Array:
    return batch.launch.coordinate(batch.rows, op["axis"])


@runs(program.num_programs)
def num_programs(op: Operation, batch: ProgramBatch) -> Array:
    return np.full(1, batch.launch.grid[op["axis"]], np.int32)


@runs(program.multiprocessor_id)
def multiprocessor_id(op: Operation, batch: ProgramBatch) -> Array:
    return np.zeros(1, np.int32)


@runs(program.global_timer)
def global_timer(op: Operation, batch: ProgramBatch) -> Array:
    return np.full(1, time.monotonic_ns())


@runs(program.cluster_gather)
def cluster_gather(op: Operation, batch: ProgramBatch, *values: RunValue) -> tuple[Array, ...]:
    return gathered(op, batch, values)


@rule(memory.load)
def load(op: Operation) -> Run:
    elements = Elements.of(op)

    def run(
        batch: ProgramBatch, address: RunValue, mask: RunValue | None, other: RunValue | None
    ) -> Array:
        return batch.launch.memory.load(
            address, optional_array(mask), optional_array(other), elements
        )

    return run


@rule(memory.store)
def store(op: Operation) -> Run:
    elements = Elements.of(op)

    def run(batch: ProgramBatch, address: RunValue, value: RunValue, mask: RunValue | None) -> None:
        batch.launch.memory.store(address, array_of(value), optional_array(mask), elements)

    return run


@rule(memory.atomic_rmw, memory.atomic_cas)
def atomic(op: Operation) -> Run:
    apply, elements = applied(op), Elements.of(op)

    def run(batch: ProgramBatch, address: RunValue, *rest: Any) -> Array:
        *operands, mask = rest
        return update(batch, elements, apply, address, mask, *operands)

    return run


Apply = Callable[..., Array | None]


def applied(op: Operation) -> Apply:
    """Return the function that an atomic applies to elements; it returns old values if used."""
    if op.defn is memory.atomic_cas:
        return compare_and_swap
    kind = op["kind"]
    if op.result.uses:
        return partial(exchange, kind=kind)
    return partial(update_in_order, kind=kind)


def update(
    batch: ProgramBatch,
    elements: Elements,
    apply: Apply,
    address: RunValue,
    mask: RunValue | None,
    *operands: RunValue,
) -> Array:
    """Update memory at a tile of addresses in every program, in order.

    Returns the old values if `apply` returns them, else zeros.
    """
    space, shape, programs = batch.launch.memory, elements.shape, len(batch)
    addresses = broadcast_rows(address, shape, programs)
    lanes = (
        None if mask is None or is_true(array_of(mask)) else broadcast_rows(mask, shape, programs)
    )
    values = [broadcast_rows(operand, shape, programs) for operand in operands]
    groups = space.groups(addresses, lanes, elements)
    return update_groups(space, groups, apply, addresses.shape, elements.dtype, values)


def update_groups(
    space: Memory,
    groups: Sequence[BufferLanes],
    apply: Apply,
    extents: tuple[int, ...],
    dtype: np.dtype[Any],
    values: Sequence[Array],
) -> Array:
    """Perform an atomic operation on resolved elements; return the old values, see `update`."""
    result = np.zeros(extents, dtype)
    for group in groups:
        index = np.broadcast_to(group.index, extents)
        if group.lanes is None:
            index, operands = index.reshape(-1), [value.reshape(-1) for value in values]
        else:
            active = np.broadcast_to(group.lanes, extents)
            index, operands = index[active], [value[active] for value in values]
        touched = np.unique(index) if space.watched else None
        before = None if touched is None else group.flat[touched].tobytes()
        old = apply(group.flat, index, *operands)
        space.changed(touched is None or group.flat[touched].tobytes() != before)
        if old is not None and group.lanes is None:
            return old.reshape(extents)
        if old is not None:
            result[active] = old
    return result


@runs(
    *(memory.barrier, debug.breakpoint_, debug.debug_step, debug.assume),
    *(program.launch_dependents, memory.prefetch),
)
def nothing(op: Operation, batch: ProgramBatch, *values: RunValue) -> None:
    return None


@rule(arith.bitcast)
def bitcast(op: Operation) -> Run:
    run = pure(op)
    source, result = op.inputs[0].type.element, op.result.type.element
    if source.is_ptr() or not result.is_ptr():
        return run

    def to_pointer(batch: ProgramBatch, value: RunValue) -> Array:
        return batch.launch.memory.virtual(array_of(run(batch, value)))

    return to_pointer


@runs(debug.device_assert)
def device_assert(
    op: Operation, batch: ProgramBatch, condition: RunValue, mask: RunValue | None
) -> None:
    wrong = ~array_of(condition)
    if mask is not None:
        wrong = wrong & array_of(mask)
    if not wrong.any():
        return
    row, *lane = first_true(wrong)
    message = op["message"]
    raise DeviceAssertionError(
        f"device_assert failed in `{batch.launch.name}`" + (f": {message}" if message else ""),
        notes=[batch.launch.element(tuple(lane), int(batch.rows[row]))],
    )


@runs(debug.device_print)
def device_print(op: Operation, batch: ProgramBatch, *values: RunValue) -> None:
    shapes = [value.type.shape for value in op.inputs]
    arrays = [broadcast_rows(v, shape, len(batch)) for v, shape in zip(values, shapes, strict=True)]
    for row, program_index in enumerate(batch.rows):
        print_line(op, batch, int(program_index), [array[row] for array in arrays])


def print_line(
    op: Operation, batch: ProgramBatch, program_index: int, values: Sequence[Any]
) -> None:
    """Print the line of one program."""
    head = f"pid {batch.launch.coordinates(program_index)} {op['prefix']}"
    texts = [_text(value, op["hex"]) for value in values]
    sys.stdout.write(" ".join([head, *texts]) + "\n")


def _text(value: Any, in_hex: bool) -> str:
    array, formatter = np.asarray(value), None
    if in_hex:
        array = array if array.dtype.kind in "iub" else array.view(f"u{array.itemsize}")
        width = 2 * array.itemsize
        mask = (1 << (8 * array.itemsize)) - 1
        formatter = {"all": lambda v: f"0x{int(v) & mask:0{width}x}"}
    return np.array2string(array, formatter=formatter, threshold=sys.maxsize)  # type: ignore[arg-type]
