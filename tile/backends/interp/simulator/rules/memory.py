"""Vector loads, stores and atomic operations on global memory."""

from __future__ import annotations

import numpy as np

from tile.backends.interp import rules as tile_rules
from tile.backends.interp.bytecode import Run, rule_in
from tile.backends.interp.fault_report import first_true
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Elements
from tile.backends.interp.simulator import access_cost
from tile.backends.interp.simulator.fault_report import bad_vector
from tile.backends.interp.simulator.launch import launch_of
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, is_true
from tile.ir.core import Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import pointee

RULES: Rules = {}
rule = rule_in(RULES)


@rule(memory.load, memory.store, memory.atomic_rmw, memory.atomic_cas)
def access(op: Operation) -> Run:
    return _with_checks(op, tile_rules.RULES[op.defn](op))


def _with_checks(op: Operation, access: Run) -> Run:
    """Check and count the vectors of an access before it runs; check for races unless atomic."""
    vector, ordered = op.attributes.get("vector", 1), "order" not in op.attributes
    mask_at = op.defn.positions["mask"]
    shape = op.inputs[0].type.shape

    def run(batch: ProgramBatch, address: RunValue, *rest: RunValue | None) -> Array | None:
        launch = launch_of(batch)
        counters, races = launch.counters, launch.races if ordered else None
        if vector > 1 or counters is not None or races is not None:
            active = _active(batch, rest[mask_at - 1], shape)
            addresses = broadcast_rows(address, shape, len(batch))
            check_vectors(batch, op, addresses, active, vector)
            if counters is not None:
                access_cost.global_access(batch, op, addresses, active, vector)
            if races is not None:
                size = pointee(op.name, op["ptr"].type).itemsize
                races.access(op, batch.rows, addresses, active, size)
        result: Array | None = access(batch, address, *rest)
        return result

    return run


def _active(batch: ProgramBatch, mask: RunValue | None, shape: tuple[int, ...]) -> Array | None:
    if mask is None or is_true(array_of(mask)):
        return None
    return broadcast_rows(mask, shape, len(batch))


def load_vectors(
    batch: ProgramBatch, op: Operation, address: Array, mask: Array | None, other: Array | None
) -> Array:
    """Load the elements that the pointers of an asynchronous copy point to."""
    ptr = op["ptr"].type
    elements = Elements(pointee("shared_cp_async", ptr), ptr.shape)
    if launch_of(batch).counters is not None:
        access_cost.global_access(batch, op, address, mask, op["vector"])
    return launch_of(batch).memory.load(address, mask, other, elements)


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
        row, number, _ = first_true(wrong)
        raise bad_vector(batch, op, row, number * vector, problem)
