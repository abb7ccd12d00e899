"""Error messages of the SIMT simulator: which thread did what, where, and which thread it met."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tile.backends.interp.fault_report import error_for, verb_of
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Buffer
from tile.backends.interp.simulator.async_ops import TmaWriteOrderError
from tile.backends.interp.simulator.clusters import ClusterWaitError
from tile.backends.interp.simulator.launch import ThreadLaunch, chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.mbarriers import MbarrierMisuseError
from tile.backends.interp.simulator.races import GlobalRaceError
from tile.backends.interp.simulator.shared_memory import SharedFaultError
from tile.errors import (
    DeadlockError,
    DivergenceError,
    ExecutionError,
    RaceError,
    SharedBoundsError,
    VectorAccessError,
)
from tile.ir.core import Operation
from tile.ir.shared_type import Shared, shared_of
from tile.simt.ops.shared import allocation


@error_for.register
def shared_fault(fault: SharedFaultError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a shared-memory fault."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    kind, op = fault.fault, fault.op
    row = chunk.first + fault.program * chunk.threads + fault.thread
    notes = [f"in {launch.program(row)}, by {_at(op)}", _where(op, fault.byte)]
    if kind.other:
        other, thread = chunk.memory.operation_of(fault.record)
        notes.append(f"{kind.other} by {_thread_name(launch, thread)}, by {_at(other)}")
    return kind.error(f"`{launch.name}` {kind.problem}", loc=op.loc, notes=notes)


@error_for.register
def misuse_error(fault: MbarrierMisuseError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a wrong use of an mbarrier."""
    error, problem = fault.misuse.value
    return _program_error(
        error,
        fault,
        batch,
        problem,
        f"it is the mbarrier of stage {fault.stage}; {fault.expected} bytes are expected on it, "
        f"and TMA loads of {fault.started} bytes have started",
    )


@error_for.register
def cluster_wait(fault: ClusterWaitError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a program that waits for another one of its cluster forever."""
    problem = "waits for a program of its cluster that never arrives"
    return _program_error(DeadlockError, fault, batch, problem)


@error_for.register
def tma_write_order(fault: TmaWriteOrderError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a TMA store or reduction that is not ordered after an earlier one."""
    buffer, index = _element_at(launch_of(batch), fault.address)
    problem = (
        f"writes `{buffer.name}` by TMA at element {index}, which an earlier TMA store may still "
        "write; a tma_store_wait without `read` completes it"
    )
    note = f"the earlier one is by {_at(fault.other)}"
    return _program_error(RaceError, fault, batch, problem, note)


def _program_error(
    error: Callable[..., ExecutionError],
    fault: MbarrierMisuseError | ClusterWaitError | TmaWriteOrderError,
    batch: ProgramBatch,
    problem: str,
    *notes: str,
) -> ExecutionError:
    """Return the error for a fault of a whole program."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    row = np.array([chunk.first + fault.program * chunk.threads])
    where = f"in program {launch.programs_of(row)[0]}, by {_at(fault.op)}"
    return error(f"`{launch.name}` {problem}", loc=fault.op.loc, notes=[where, *notes])


@error_for.register
def global_race(race: GlobalRaceError, batch: ProgramBatch) -> ExecutionError:
    """Return the error for a race on global memory."""
    launch, op = launch_of(batch), race.op
    buffer, index = _element_at(launch, race.address)
    does, did = verb_of(op), "read" if race.other.results else "wrote"
    return RaceError(
        f"`{launch.name}` {does} `{buffer.name}` at element {index}, which another thread {did}, "
        "with no barrier in between",
        loc=op.loc,
        notes=[
            f"in {launch.program(race.row)}, by {_at(op)}",
            f"{did} by {launch.thread(race.other_row % launch.threads)}, by {_at(race.other)}",
        ],
    )


def _element_at(launch: ThreadLaunch, address: int) -> tuple[Buffer, int]:
    """Return the buffer at an address, and the index of its element there."""
    buffer = launch.memory.buffer_at(address)
    assert buffer is not None
    return buffer, buffer.element(address)


def _thread_name(launch: ThreadLaunch, thread: int) -> str:
    return launch.thread(thread) if thread < launch.threads else "several threads"


def _at(op: Operation | None) -> str:
    assert op is not None
    return f"`{op.name}` at {op.loc}" if op.loc is not None else f"`{op.name}`"


def buffer_of(op: Operation) -> Shared:
    """Return the type of the shared-memory buffer that is the operation's first operand."""
    return shared_of(op.inputs[0].type)


def describe_buffer(op: Operation, byte: int | None = None) -> str:
    """Describe the buffer of an operation; if it has several, the one that contains `byte`."""
    allocations = [allocation(mem) for mem in op.inputs if isinstance(mem.type, Shared)]
    alloc = next((a for a in allocations if a is not None and _contains(a, byte)), allocations[0])
    if alloc is None:
        return f"the buffer is a {buffer_of(op)}"
    buffer = shared_of(alloc.result.type)
    first, last = alloc["offset"], alloc["offset"] + buffer.bytes - 1
    return f"the buffer is bytes {first} to {last}, {buffer}, by {_at(alloc)}"


def _where(op: Operation, byte: int) -> str:
    return f"at byte {byte} of the program's shared memory; {describe_buffer(op, byte)}"


def _contains(alloc: Operation, byte: int | None) -> bool:
    buffer = shared_of(alloc.result.type)
    return byte is None or alloc["offset"] <= byte < alloc["offset"] + buffer.bytes


def outside(
    batch: ProgramBatch, op: Operation, row: int, offset: int, vector: int
) -> SharedBoundsError:
    """Return the error for an access outside its buffer."""
    buffer = buffer_of(op)
    last = f" to {offset + vector - 1}" if vector > 1 else ""
    return SharedBoundsError(
        f"`{batch.launch.name}` accesses element {offset}{last} of a buffer of {buffer.numel}",
        loc=op.loc,
        notes=[f"in {batch.launch.program(int(batch.rows[row]))}", describe_buffer(op)],
    )


def bad_vector(
    batch: ProgramBatch, op: Operation, row: int, register: int, problem: str
) -> VectorAccessError:
    """Return the error for a vector that memory cannot move in one access."""
    where = batch.launch.element((register,), int(batch.rows[row]))
    return VectorAccessError(
        f"`{batch.launch.name}` accesses a vector {problem}", loc=op.loc, notes=[where]
    )


def misaligned_block(batch: ProgramBatch, op: Operation, base: int, step: int) -> VectorAccessError:
    """Return the error for an array whose address or stride TMA does not accept."""
    return VectorAccessError(
        f"`{batch.launch.name}` copies a block of an array at {base:#x} with a stride of {step} "
        "bytes; both must be multiples of 16",
        loc=op.loc,
    )


def misaligned_index(
    batch: ProgramBatch, op: Operation, index: int, size: int
) -> VectorAccessError:
    """Return the error for a block that begins where TMA copies none."""
    return VectorAccessError(
        f"`{batch.launch.name}` copies a block with the index {index} along the last axis, of "
        f"elements of {size} bytes; it must be a multiple of 16 bytes",
        loc=op.loc,
    )


def negative_index(batch: ProgramBatch, op: Operation, index: int, axis: int) -> VectorAccessError:
    """Return the error for a TMA reduction that begins in front of an array."""
    return VectorAccessError(
        f"`{batch.launch.name}` reduces a block by TMA with the index {index} along axis {axis}; "
        "it must not be negative",
        loc=op.loc,
    )


def require_whole_warps(batch: ProgramBatch, op: Operation) -> None:
    """Raise `DivergenceError` unless all lanes of every warp execute a warp-wide operation."""
    thread_map = thread_map_of(batch)
    if not thread_map.whole_warps:
        raise _divergence(batch, op, "warp", thread_map.lanes)


def require_whole_programs(batch: ProgramBatch, op: Operation) -> None:
    """Raise `DivergenceError` unless all threads of every program execute an operation."""
    thread_map = thread_map_of(batch)
    if not thread_map.whole_programs:
        raise _divergence(batch, op, "program", thread_map.threads)


def _divergence(batch: ProgramBatch, op: Operation, group: str, size: int) -> DivergenceError:
    launch = launch_of(batch)
    row, absent = thread_map_of(batch).missing(size)
    return DivergenceError(
        f"`{launch.name}` executes `{op.name}` with only some threads of a {group}; it needs all",
        loc=op.loc,
        notes=[
            f"in {launch.program(int(batch.rows[row]))}",
            f"{launch.thread(absent)} does not execute it",
        ],
    )
