"""Error messages of the SIMT simulator: which thread did what, where, and which thread it met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator.async_ops import MbarrierMisuse, MbarrierMisuseError
from tile.backends.interp.simulator.launch import ThreadLaunch, chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.races import GlobalRaceError
from tile.backends.interp.simulator.shared_memory import Fault, SharedFaultError
from tile.errors import (
    CopyInFlightError,
    DivergenceError,
    ExecutionError,
    MbarrierError,
    RaceError,
    SharedBoundsError,
    UndefinedReadError,
    VectorAccessError,
    WgmmaInFlightError,
)
from tile.ir.core import Operation
from tile.ir.types import Shared
from tile.simt.ops.shared import allocation


@dataclass(frozen=True)
class _Message:
    error: Callable[..., ExecutionError]
    problem: str  # what the kernel does wrong
    other: str  # what the other thread did, as a participle; empty if no other thread is involved


_MESSAGES = {
    Fault.READ_AFTER_WRITE: _Message(
        RaceError,
        "reads shared memory that another thread wrote, with no barrier in between",
        "written",
    ),
    Fault.WRITE_AFTER_READ: _Message(
        RaceError,
        "writes shared memory that another thread read, with no barrier in between",
        "read",
    ),
    Fault.WRITE_AFTER_WRITE: _Message(
        RaceError,
        "writes shared memory that another thread wrote, with no barrier in between",
        "written",
    ),
    Fault.SAME_STORE: _Message(
        RaceError,
        "writes different values to one shared-memory address from several threads at once",
        "written",
    ),
    Fault.SAME_COPY: _Message(
        RaceError,
        "copies to one shared-memory address from several threads at once",
        "copy started",
    ),
    Fault.IN_FLIGHT: _Message(
        CopyInFlightError,
        "accesses shared memory that an asynchronous copy still writes; cp_async_wait_group "
        "waits for it",
        "copy started",
    ),
    Fault.WGMMA_READING: _Message(
        WgmmaInFlightError,
        "writes shared memory that a wgmma in flight still reads; wgmma_wait waits for it",
        "wgmma started",
    ),
    Fault.WGMMA_UNFENCED: _Message(
        RaceError,
        "reads with wgmma what a thread wrote to shared memory, with no fence_proxy_async by "
        "that thread",
        "written",
    ),
    Fault.TMA_STORE_UNFENCED: _Message(
        RaceError,
        "reads with a TMA store what a thread wrote, with no fence_proxy_async by that thread in "
        "between",
        "written",
    ),
    Fault.TMA_LOAD_UNFENCED: _Message(
        RaceError,
        "overwrites with a TMA load what a thread wrote, with no fence_proxy_async by that thread",
        "written",
    ),
    Fault.UNDEFINED: _Message(UndefinedReadError, "reads shared memory that was never written", ""),
}


def shared_fault(batch: ProgramBatch, fault: SharedFaultError) -> ExecutionError:
    """Return the error for a shared-memory fault."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    message, op = _MESSAGES[fault.fault], fault.op
    row = chunk.first + fault.program * chunk.threads + fault.thread
    notes = [f"in {launch.program(row)}, by {_at(op)}", _where(op, fault.byte)]
    if message.other:
        other, thread = chunk.memory.operation_of(fault.record)
        notes.append(f"{message.other} by {_thread_name(launch, thread)}, by {_at(other)}")
    return message.error(f"`{launch.name}` {message.problem}", loc=op.loc, notes=notes)


_MISUSES: dict[MbarrierMisuse, tuple[Callable[..., ExecutionError], str]] = {
    MbarrierMisuse.NOT_INITIALIZED: (
        MbarrierError,
        "uses an mbarrier that mbarrier_init has not initialized",
    ),
    MbarrierMisuse.ALREADY_INITIALIZED: (
        MbarrierError,
        "initializes an mbarrier again, with no mbarrier_inval before",
    ),
    MbarrierMisuse.UNSYNCHRONIZED: (
        RaceError,
        "uses an mbarrier that another thread initialized, with no `barrier` in between",
    ),
    MbarrierMisuse.UNFENCED: (
        RaceError,
        "uses an mbarrier with no fence_proxy_async since its initialization",
    ),
    MbarrierMisuse.STILL_WAITED_FOR: (
        RaceError,
        "invalidates an mbarrier on which other threads may still wait",
    ),
    MbarrierMisuse.PHASE_PENDING: (
        MbarrierError,
        "expects bytes on an mbarrier whose current phase has not been waited for",
    ),
    MbarrierMisuse.NEVER_COMPLETES: (
        MbarrierError,
        "waits on an mbarrier whose phase never completes: not all expected bytes arrive, or none",
    ),
}


def misuse_error(batch: ProgramBatch, fault: MbarrierMisuseError) -> ExecutionError:
    """Return the error for a wrong use of an mbarrier."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    error, problem = _MISUSES[fault.misuse]
    row = chunk.first + fault.program * chunk.threads
    notes = [
        f"in program {launch.programs_of(np.array([row]))[0]}, by {_at(fault.op)}",
        f"it is the mbarrier of stage {fault.stage}; {fault.expected} bytes are expected on it, "
        f"and TMA loads of {fault.started} bytes have started",
    ]
    return error(f"`{launch.name}` {problem}", loc=fault.op.loc, notes=notes)


def global_race(batch: ProgramBatch, op: Operation, race: GlobalRaceError) -> RaceError:
    """Return the error for a race on global memory."""
    launch = launch_of(batch)
    buffer = launch.memory.buffer_at(race.address)
    assert buffer is not None
    index = (race.address - buffer.origin) // buffer.array.itemsize
    does, did = ("reads" if op.results else "writes"), ("read" if race.other.results else "wrote")
    return RaceError(
        f"`{launch.name}` {does} `{buffer.name}` at element {index}, which another thread {did}, "
        "with no barrier in between",
        loc=op.loc,
        notes=[
            f"in {launch.program(race.row)}, by {_at(op)}",
            f"{did} by {launch.thread(race.other_row % launch.threads)}, by {_at(race.other)}",
        ],
    )


def _thread_name(launch: ThreadLaunch, thread: int) -> str:
    return launch.thread(thread) if thread < launch.threads else "several threads"


def _at(op: Operation | None) -> str:
    assert op is not None
    return f"`{op.name}` at {op.loc}" if op.loc is not None else f"`{op.name}`"


def buffer_of(op: Operation) -> Shared:
    """Return the type of the shared-memory buffer that is the operation's first operand."""
    buffer = op.inputs[0].type
    assert isinstance(buffer, Shared)
    return buffer


def describe_buffer(op: Operation, byte: int | None = None) -> str:
    """Describe the buffer of an operation; if it has several, the one that contains `byte`."""
    allocations = [allocation(mem) for mem in op.inputs if isinstance(mem.type, Shared)]
    alloc = next((a for a in allocations if a is not None and _contains(a, byte)), allocations[0])
    if alloc is None:
        return f"the buffer is a {buffer_of(op)}"
    buffer = alloc.result.type
    assert isinstance(buffer, Shared)
    first, last = alloc["offset"], alloc["offset"] + buffer.bytes - 1
    return f"the buffer is bytes {first} to {last}, {buffer}, by {_at(alloc)}"


def _where(op: Operation, byte: int) -> str:
    return f"at byte {byte} of the program's shared memory; {describe_buffer(op, byte)}"


def _contains(alloc: Operation, byte: int | None) -> bool:
    buffer = alloc.result.type
    assert isinstance(buffer, Shared)
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
    """Return the error for an array whose address or row stride TMA does not accept."""
    return VectorAccessError(
        f"`{batch.launch.name}` copies a block of an array at {base:#x} with rows {step} bytes "
        "apart; both must be multiples of 16",
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
