"""Rules of operations with effects.

A rule returns, for an operation, what its instruction runs.

An atomic operation updates memory for many programs at once, as if they performed it in order of
program. If all addresses are distinct, they are updated together. If an address occurs several
times, its n-th occurrence is updated in step n. If the old values are not used, NumPy's `ufunc.at`
updates one element after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.bytecode import Run, rule_in
from tile.backends.interp.fault_report import first_false
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.translate import Rules, pure
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, is_true
from tile.backends.interp.virtual_memory import BufferLanes, Memory
from tile.errors import DeviceAssertionError
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.ops import arith, debug, memory, program
from tile.ir.ops.memory import RMWKind, pointee
from tile.ir.types import Scalar

Combine = Callable[[Array, Array], Array]

COMBINE: dict[RMWKind, Combine] = {
    RMWKind.ADD: semantics.add,
    RMWKind.MAX: semantics.maximum,
    RMWKind.MIN: semantics.minimum,
    RMWKind.AND: semantics.and_,
    RMWKind.OR: semantics.or_,
    RMWKind.XOR: semantics.xor,
    RMWKind.XCHG: lambda old, new: new,
}

# The ufuncs that combine as COMBINE does, for `ufunc.at`.
UFUNCS: dict[RMWKind, np.ufunc] = {
    RMWKind.ADD: np.add,
    RMWKind.MAX: np.fmax,
    RMWKind.MIN: np.fmin,
    RMWKind.AND: np.bitwise_and,
    RMWKind.OR: np.bitwise_or,
    RMWKind.XOR: np.bitwise_xor,
}


def update_in_order(flat: Array, index: Array, values: Array, kind: RMWKind) -> None:
    """Combine `values` into `flat[index]`, in order."""
    ufunc = UFUNCS.get(kind)
    if ufunc is None:
        flat[index] = values  # if an index occurs several times, NumPy keeps the last value
    else:
        ufunc.at(flat, index, values)


def exchange(flat: Array, index: Array, values: Array, kind: RMWKind) -> Array:
    """Combine `values` into `flat[index]`, in order; return the old value before each update."""
    combine = COMBINE[kind]
    old = np.empty(index.shape, flat.dtype)
    for lanes in _conflict_free_groups(index):
        cell = index[lanes]
        before = flat[cell]
        old[lanes] = before
        flat[cell] = combine(before, values[lanes])
    return old


def compare_and_swap(flat: Array, index: Array, expected: Array, values: Array) -> Array:
    """Write `values` where `flat[index]` holds the bits of `expected`; return the old values.

    An attempt that fails changes nothing, so all attempts at an address up to the first success see
    the same value. Each step therefore handles one success per address, not one attempt.
    """
    bits = np.dtype(f"u{flat.itemsize}")
    memory, expected_bits = flat.view(bits), expected.view(bits)
    old = np.empty(index.shape, bits)
    pending = np.arange(index.size)
    while pending.size:
        targets = index[pending]
        current = memory[targets]
        old[pending] = current
        matches = np.flatnonzero(current == expected_bits[pending])
        if not matches.size:
            break
        cells, cell = np.unique(targets, return_inverse=True)
        _, first = np.unique(cell[matches], return_index=True)
        winners = matches[first]
        memory[targets[winners]] = values.view(bits)[pending[winners]]
        # At an address with a success, later attempts are repeated.
        winner_of = np.full(len(cells), pending.size, np.intp)
        winner_of[cell[winners]] = winners
        pending = pending[np.arange(pending.size) > winner_of[cell]]
    return old.view(flat.dtype)


def _conflict_free_groups(index: Array) -> list[Array]:
    """Divide the positions of `index` into groups without repeats, earlier occurrences first."""
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    is_first = np.empty(index.size, bool)
    is_first[:1] = True
    np.not_equal(sorted_index[1:], sorted_index[:-1], out=is_first[1:])
    if is_first.all():
        return [np.arange(index.size)]
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    rank = np.arange(index.size) - starts[group]
    return [order[rank == n] for n in range(int(rank.max()) + 1)]


RULES: Rules = {}


rule = rule_in(RULES)


@rule(program.program_id)
def program_id(op: Operation) -> Run:
    axis = op["axis"]

    def run(batch: ProgramBatch) -> Array:
        return batch.launch.coordinate(batch.rows, axis)

    return run


@rule(program.num_programs)
def num_programs(op: Operation) -> Run:
    axis = op["axis"]

    def run(batch: ProgramBatch) -> Array:
        return np.full(1, batch.launch.grid[axis], np.int32)

    return run


@rule(memory.load)
def load(op: Operation) -> Run:
    ptr = op.inputs[0].type
    element, shape = pointee("load", ptr), ptr.shape

    def run(
        batch: ProgramBatch, address: RunValue, mask: RunValue | None, other: RunValue | None
    ) -> Array:
        return batch.launch.memory.load(address, _array(mask), _array(other), element, shape)

    return run


@rule(memory.store)
def store(op: Operation) -> Run:
    ptr = op.inputs[0].type
    element, shape = pointee("store", ptr), ptr.shape

    def run(batch: ProgramBatch, address: RunValue, value: RunValue, mask: RunValue | None) -> None:
        batch.launch.memory.store(address, array_of(value), _array(mask), element, shape)

    return run


def _array(value: RunValue | None) -> Array | None:
    return None if value is None else array_of(value)


@rule(memory.atomic_rmw, memory.atomic_cas)
def atomic(op: Operation) -> Run:
    apply, ptr = applied(op), op.inputs[0].type
    element = pointee("atomic", ptr)
    assert isinstance(element, Scalar)

    def run(batch: ProgramBatch, address: RunValue, *rest: Any) -> Array:
        *operands, mask = rest
        return update(batch, element, ptr.shape, apply, address, mask, *operands)

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
    element: Scalar,
    shape: tuple[int, ...],
    apply: Callable[..., Array | None],
    address: RunValue,
    mask: RunValue | None,
    *operands: RunValue,
) -> Array:
    """Update memory at a tile of addresses in every program, in order.

    Returns the old values if `apply` returns them, else zeros.
    """
    dtype = semantics.numpy_dtype(element)
    space = batch.launch.memory
    programs = len(batch)
    addresses = broadcast_rows(address, shape, programs)
    lanes = (
        None if mask is None or is_true(array_of(mask)) else broadcast_rows(mask, shape, programs)
    )
    values = [broadcast_rows(operand, shape, programs) for operand in operands]
    groups = space.groups(addresses, lanes, dtype, shape)
    return update_groups(space, groups, apply, addresses.shape, dtype, values)


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
        active = np.ones(extents, bool) if group.lanes is None else group.lanes
        active = np.broadcast_to(active, extents)
        index = np.broadcast_to(group.index, extents)[active]
        touched = np.unique(index) if space.watched else None
        before = None if touched is None else group.flat[touched].tobytes()
        old = apply(group.flat, index, *(value[active] for value in values))
        if old is not None:
            result[active] = old
        space.changed(touched is None or group.flat[touched].tobytes() != before)
    return result


@rule(memory.barrier, debug.breakpoint_, debug.debug_step, debug.assume)
def nothing(op: Operation) -> Run:
    return lambda batch, *values: None


@rule(arith.bitcast)
def bitcast(op: Operation) -> Run:
    run = pure(op)
    source, result = op.inputs[0].type.element, op.result.type.element
    if source.is_ptr() or not result.is_ptr():
        return run

    def to_pointer(batch: ProgramBatch, value: RunValue) -> Array:
        return batch.launch.memory.virtual(array_of(run(batch, value)))

    return to_pointer


@rule(debug.device_assert)
def device_assert(op: Operation) -> Run:
    message = op["message"]

    def run(batch: ProgramBatch, condition: RunValue, mask: RunValue | None) -> None:
        holds = array_of(condition)
        if mask is not None:
            holds = holds | ~array_of(mask)
        if holds.all():
            return
        row, *lane = first_false(holds)
        location = batch.launch.element(tuple(lane), int(batch.rows[row]))
        raise DeviceAssertionError(
            f"device_assert failed in `{batch.launch.name}`" + (f": {message}" if message else ""),
            notes=[location],
        )

    return run


@rule(debug.device_print)
def device_print(op: Operation) -> Run:
    return partial(_print, op)


def _print(op: Operation, batch: ProgramBatch, *values: RunValue) -> None:
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
