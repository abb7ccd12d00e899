"""Vector loads, stores and atomic operations on global memory."""

from __future__ import annotations

import numpy as np

from tile.backends.interp import rules as tile_rules
from tile.backends.interp.bytecode import Run
from tile.backends.interp.fault_report import out_of_bounds
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator import access_cost
from tile.backends.interp.simulator.fault_report import bad_vector, global_race
from tile.backends.interp.simulator.launch import launch_of
from tile.backends.interp.simulator.races import GlobalRaceError, GlobalRaces
from tile.backends.interp.translate import Rules, rule_in
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, is_true
from tile.backends.interp.virtual_memory import FaultError
from tile.ir.core import Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import pointee

RULES: Rules = {}
rule = rule_in(RULES)


@rule(memory.load)
def load(op: Operation) -> Run:
    return _with_checks(op, tile_rules.load(op), 1, ordered=True)


@rule(memory.store)
def store(op: Operation) -> Run:
    return _with_checks(op, tile_rules.store(op), 2, ordered=True)


@rule(memory.atomic_rmw)
def atomic_rmw(op: Operation) -> Run:
    return _with_checks(op, tile_rules.atomic_rmw(op), 2)


@rule(memory.atomic_cas)
def atomic_cas(op: Operation) -> Run:
    return _with_checks(op, tile_rules.atomic_cas(op), None)


def _with_checks(op: Operation, access: Run, mask_at: int | None, *, ordered: bool = False) -> Run:
    """Check and count the vectors of an access before it runs; check for races if `ordered`."""
    vector = op.attributes.get("vector", 1)
    shape = op.inputs[0].type.shape

    def run(batch: ProgramBatch, address: RunValue, *rest: RunValue | None) -> Array | None:
        launch = launch_of(batch)
        counters, races = launch.counters, launch.races if ordered else None
        if vector > 1 or counters is not None or races is not None:
            mask = rest[mask_at - 1] if mask_at is not None else None
            active = _active(batch, mask, shape)
            addresses = broadcast_rows(address, shape, len(batch))
            check_vectors(batch, op, addresses, active, vector)
            if counters is not None:
                access_cost.global_access(batch, op, addresses, active, vector)
            if races is not None:
                _check_race(batch, races, op, addresses, active)
        result: Array | None = access(batch, address, *rest)
        return result

    return run


def _check_race(
    batch: ProgramBatch, races: GlobalRaces, op: Operation, address: Array, active: Array | None
) -> None:
    """Raise `RaceError` for an element that another thread accessed since the last barrier."""
    size = pointee(op.name, op["ptr"].type).itemsize
    try:
        races.access(op, batch.rows, address, active, size)
    except GlobalRaceError as race:
        raise global_race(batch, op, race) from None


def _active(batch: ProgramBatch, mask: RunValue | None, shape: tuple[int, ...]) -> Array | None:
    if mask is None or is_true(array_of(mask)):
        return None
    return broadcast_rows(mask, shape, len(batch))


def load_vectors(
    batch: ProgramBatch, op: Operation, address: Array, mask: Array | None, other: Array | None
) -> Array:
    """Load the elements that the pointers of an asynchronous copy point to."""
    ptr = op["ptr"].type
    element = pointee("shared_cp_async", ptr)
    if launch_of(batch).counters is not None:
        access_cost.global_access(batch, op, address, mask, op["vector"])
    try:
        return launch_of(batch).memory.load(address, mask, other, element, ptr.shape)
    except FaultError as fault:
        raise out_of_bounds(batch, "reads", fault, element.itemsize) from None


def check_vectors(
    batch: ProgramBatch, op: Operation, address: Array, mask: Array | None, vector: int
) -> None:
    """Raise `VectorAccessError` for vectors not contiguous, not aligned, or masked in part."""
    if vector == 1:
        return
    ptr = op["ptr"].type
    size = pointee(op.name, ptr).itemsize
    vectors = address.reshape(len(address), -1, vector)
    if mask is not None:
        masks = np.broadcast_to(mask, address.shape).reshape(vectors.shape)
        active = masks[..., :1]
        _refuse(batch, op, masks != active, vector, "with masks that differ")
    first = vectors[..., :1]
    not_contiguous = vectors != first + np.arange(0, size * vector, size)
    misaligned = first & (size * vector - 1) != 0
    if mask is not None:
        not_contiguous, misaligned = not_contiguous & active, misaligned & active
    _refuse(batch, op, not_contiguous, vector, f"of {vector} elements that are not contiguous")
    _refuse(batch, op, misaligned, vector, f"that is not aligned to its {size * vector} bytes")


def _refuse(batch: ProgramBatch, op: Operation, wrong: Array, vector: int, problem: str) -> None:
    """Raise the error of the first wrong vector; `wrong` has axes (row, vector, element or 1)."""
    if wrong.any():
        row, number, _ = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
        raise bad_vector(batch, op, row, number * vector, problem)
