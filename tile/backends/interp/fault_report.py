"""Fault reports: which program did what, at which element of which array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np

from tile.backends.interp.cluster_values import GatherWaitError
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Buffer
from tile.backends.interp.values import Array
from tile.backends.interp.virtual_memory import DetectedFaultError, FaultError
from tile.checks import Check
from tile.errors import (
    BrokenAssumptionError,
    DataRaceError,
    DeadlockError,
    ExecutionError,
    IntegerOverflowError,
    OutOfBoundsError,
    UndefinedValueError,
)
from tile.faults import Fault, FaultAddress, FaultLog
from tile.heatmap import ArrayView
from tile.ir.core import Operation
from tile.ir.descriptor_type import Descriptor
from tile.ir.op_definition import Effect

ERRORS: dict[Check, type[ExecutionError]] = {
    Check.BOUNDS: OutOfBoundsError,
    Check.RACE: DataRaceError,
    Check.UNDEF: UndefinedValueError,
    Check.OVERFLOW: IntegerOverflowError,
    Check.ASSUME: BrokenAssumptionError,
    Check.DEADLOCK: DeadlockError,
}


def error_of(fault: Fault) -> ExecutionError:
    """Return the error for a fault."""
    error = ERRORS[fault.check](fault.message, loc=fault.loc, notes=fault.notes)
    error.fault = fault
    return error


class FaultCollector:
    """A context that collects the faults of one operation, and commits them at its end.

    report: what takes the faults; None if the first one is raised.
    """

    def __init__(self, report: FaultLog | None, commit: Callable[[Sequence[Fault]], None]) -> None:
        self.report = report
        self.commit = commit
        self.faults: list[Fault] | None = None  # None outside of the context

    def __enter__(self) -> None:
        self.faults = []

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        faults, self.faults = self.faults, None
        if faults and kind is None:
            self.commit(faults)

    @property
    def raising(self) -> bool:
        """Return True if the operation has a fault that ends the run, so that it writes nothing."""
        return self.report is None and bool(self.faults)


def report_faults(batch: ProgramBatch, wrong: Array, make: Callable[[Array], Fault]) -> None:
    """Report the faults of wrong elements of a batch: one for each program that has some.

    `make` returns the fault of some of these elements. The number of faults does not depend on how
    the grid is divided into batches. Faults beyond the report's limit are merged into one.
    """
    launch = batch.launch
    where = np.broadcast_to(wrong, (len(batch), *wrong.shape[1:]))
    programs = np.flatnonzero(where.reshape(len(batch), -1).any(axis=1))

    def of(some: Array) -> Fault:
        chosen = np.zeros(where.shape, np.bool_)
        chosen[some] = where[some]
        return make(chosen)

    first_fault = of(programs[:1])
    launch.report_fault(first_fault)
    if launch.report is None:
        return
    separate = max(1, launch.report.remaining(first_fault))
    for index in range(1, min(separate, len(programs))):
        launch.report_fault(of(programs[index : index + 1]))
    merged = programs[separate:]
    if len(merged):
        launch.report_fault(replace(of(merged), executions=len(merged)))


def verb_of(op: Operation) -> str:
    """Return what an operation does to global memory, as messages say it."""
    reads, writes = Effect.READ in op.defn.effect, Effect.WRITE in op.defn.effect
    return "updates" if reads and writes else "reads" if reads else "writes"


@singledispatch
def error_for(fault: DetectedFaultError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a fault of the operation at which a batch stands.

    A package with faults of its own registers a function for each.
    """
    raise NotImplementedError


@error_for.register
def out_of_bounds(fault: FaultError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for an access out of bounds."""
    error = error_of(bounds_fault(batch, fault))
    ty = _operation(batch).inputs[0].type
    if isinstance(ty, Descriptor):
        error.notes.append(
            f"it is within the bounds of the descriptor {ty}, which exceed the array"
        )
    return error


@error_for.register
def gather_wait(fault: GatherWaitError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a program that waits for another one of its cluster forever."""
    launch = batch.launch
    problem = "waits for a program of its cluster that never comes here"
    where = f"in {launch.program(fault.row)}"
    return DeadlockError(f"`{launch.name}` {problem}", loc=fault.op.loc, notes=[where])


def _operation(batch: ProgramBatch) -> Operation:
    instruction = batch.instruction()
    assert instruction is not None
    return instruction.op


def bounds_fault(batch: ProgramBatch, fault: FaultError) -> Fault:
    """Return the fault of an access out of bounds, as data."""
    launch, op = batch.launch, _operation(batch)
    verb = verb_of(op)
    buffer = launch.memory.buffer_at(fault.address)
    # An access that is the same in all programs is performed once, for the first of them.
    row = int(batch.rows[fault.row if fault.row < len(batch) else 0])
    if buffer is None:
        description = f"{verb} address {fault.address:#x}, which belongs to no array of this launch"
        notes = [
            "pass arrays that are reached through pointers in memory as tile.pointers([...]), or "
            "set TILE_INTERP_MEMORY=process if their addresses are in integers"
        ]
    else:
        description = f"{verb} {_place(buffer, fault.address, fault.size)}"
        notes = [described(buffer)]
    where = launch.element(fault.lane, row)
    others = f"; {fault.count} of {fault.active} active elements of this access are out of bounds"
    notes.append(where + (others if fault.active > 1 else ""))
    return Fault(
        Check.BOUNDS,
        f"`{launch.name}` {description}",
        kernel=launch.name,
        grid=launch.grid,
        program=launch.coordinates(int(launch.programs_of(np.array([row]))[0])),
        loc=op.loc,
        element=fault.lane,
        place=None if buffer is None else place_of(buffer, fault.address),
        count=fault.count,
        active=fault.active,
        notes=tuple(notes),
    )


def place_of(buffer: Buffer, address: int) -> FaultAddress:
    """Return the place of an address, relative to the array in whose window it is."""
    array = buffer.array
    index, element = index_of(buffer, address), buffer.element(address)
    return FaultAddress(buffer.name, element, index, array.shape, array.dtype.name)


def view_of(buffer: Buffer) -> ArrayView:
    """Return the view of an array, with strides and bounds in elements, for reports."""
    array = buffer.array
    size = array.itemsize
    return ArrayView(
        buffer.name,
        array.shape,
        tuple(int(stride) // size for stride in array.strides),
        array.dtype.name,
        buffer.element(buffer.start),
        buffer.element(buffer.end),
    )


def index_of(buffer: Buffer, address: int) -> tuple[int, ...] | None:
    """Return the index of the element that begins at an address; None if there is none."""
    array = buffer.array
    if not array.size:
        return None
    remainder = address - buffer.origin
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    index = [0] * array.ndim
    # Relative to the corner with the least address, each axis takes the largest index that fits.
    for axis in axes:
        if array.strides[axis] < 0:
            remainder -= array.strides[axis] * (array.shape[axis] - 1)
    for axis in axes:
        stride = abs(array.strides[axis])
        if not stride:
            continue
        steps = min(remainder // stride, array.shape[axis] - 1)
        remainder -= steps * stride
        index[axis] = steps if array.strides[axis] > 0 else array.shape[axis] - 1 - steps
    inside = remainder == 0 and all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
    return tuple(index) if inside else None


def _place(buffer: Buffer, address: int, itemsize: int) -> str:
    offset = address - buffer.origin
    size = buffer.array.itemsize
    name = f"`{buffer.name}`"
    if offset % size or itemsize != size:
        return f"{name} at byte {offset}, where no element of {itemsize} bytes lies"
    element = offset // size
    if buffer.start <= address < buffer.end and buffer.gaps is not None:
        return f"{name} at element {element}, which lies between those of the view passed"
    start, end = ("its start", "its end")
    if buffer.is_storage:
        start, end = ("the start of its storage", "the end of its storage")
    if address < buffer.start:
        return f"{name} at element {element}, before {start}"
    beyond = (address - buffer.end) // size + 1
    return f"{name} at element {element}, {beyond} past {end}"


def described(buffer: Buffer) -> str:
    """Describe an array: dtype, shape, and its range of elements."""
    array = buffer.array
    article = "an" if array.dtype.kind == "i" else "a"
    kind = f"{article} {array.dtype} array of shape {array.shape}"
    if array.size == 0:
        return f"`{buffer.name}` is {kind}: it has no elements"
    view = view_of(buffer)
    low, high = view.low, view.high - 1
    if buffer.is_storage:
        kind = kind.replace("array", "view", 1)
        return f"`{buffer.name}` is {kind}: its storage has elements {low} to {high}"
    if array.flags.c_contiguous:
        return f"`{buffer.name}` is {kind}: elements 0 to {array.size - 1}"
    return f"`{buffer.name}` is {kind} with strides {view.strides}: elements {low} to {high}"


def first_true(wrong: Array) -> tuple[int, ...]:
    """Return the index of the first true element."""
    return tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
