"""Faults of threads in words: who did what, where, and who else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.barriers import Misuse, MisuseError
from tile.backends.interp.thread.launch import ThreadLaunch, chunk_of, launch_of, place_of
from tile.backends.interp.thread.memory import Fault, SharedFaultError
from tile.backends.interp.thread.races import GlobalRaceError
from tile.backends.interp.wave import Wave
from tile.errors import (
    ArrivalError,
    CopyInFlightError,
    DivergenceError,
    ExecutionError,
    ProductInFlightError,
    RaceError,
    SharedBoundsError,
    UndefinedReadError,
    VectorAccessError,
)
from tile.ir.core import Operation
from tile.ir.types import Shared
from tile.simt.ops.shared import allocation


@dataclass(frozen=True)
class _Wording:
    error: Callable[..., ExecutionError]
    what: str  # of the kernel
    other: str  # what the other thread did; nothing, if there is none


_WORDINGS = {
    Fault.READ_AFTER_WRITE: _Wording(
        RaceError,
        "reads shared memory that another thread wrote, with no barrier in between",
        "written",
    ),
    Fault.WRITE_AFTER_READ: _Wording(
        RaceError,
        "writes shared memory that another thread read, with no barrier in between",
        "read",
    ),
    Fault.WRITE_AFTER_WRITE: _Wording(
        RaceError,
        "writes shared memory that another thread wrote, with no barrier in between",
        "written",
    ),
    Fault.SAME_STORE: _Wording(
        RaceError,
        "writes different values to one place of shared memory from several threads at once",
        "written",
    ),
    Fault.SAME_COPY: _Wording(
        RaceError,
        "copies to one place of shared memory from several threads at once",
        "copy begun",
    ),
    Fault.IN_FLIGHT: _Wording(
        CopyInFlightError,
        "touches shared memory to which a copy is on its way; copy_wait waits for it",
        "copy begun",
    ),
    Fault.READING: _Wording(
        ProductInFlightError,
        "writes shared memory that a product still reads; group_wait waits for it",
        "product begun",
    ),
    Fault.UNFENCED: _Wording(
        RaceError,
        "multiplies what a thread wrote to shared memory, with no group_fence of that thread after",
        "written",
    ),
    Fault.UNTOLD: _Wording(
        RaceError,
        "stores in bulk what a thread wrote, with no group_fence of that thread after",
        "written",
    ),
    Fault.OVERTAKEN: _Wording(
        RaceError,
        "copies in bulk to what a thread wrote, with no group_fence of that thread after",
        "written",
    ),
    Fault.UNDEFINED: _Wording(
        UndefinedReadError, "reads shared memory to which nothing was written", ""
    ),
}


def shared_fault(batch: Wave, fault: SharedFaultError) -> ExecutionError:
    """The error for a fault of shared memory."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    wording, op = _WORDINGS[fault.fault], fault.op
    row = chunk.first + fault.program * chunk.threads + fault.thread
    notes = [f"in {launch.program(row)}, by {_at(op)}", _where(op, fault.byte)]
    if wording.other:
        other, who = chunk.memory.author(fault.record)
        notes.append(f"{wording.other} by {_who(launch, who)}, by {_at(other)}")
    return wording.error(f"`{launch.name}` {wording.what}", loc=op.loc, notes=notes)


_MISUSES: dict[Misuse, tuple[Callable[..., ExecutionError], str]] = {
    Misuse.NOT_MADE: (ArrivalError, "takes a barrier that barrier_init has not made"),
    Misuse.MADE: (ArrivalError, "makes a barrier that is there, with no barrier_free before"),
    Misuse.UNSEEN: (RaceError, "takes a barrier that another thread made, with no `barrier` since"),
    Misuse.UNFENCED: (RaceError, "takes a barrier with no group_fence since it was made"),
    Misuse.WAITED_FOR: (RaceError, "frees a barrier for which other threads may still wait"),
    Misuse.NOT_WAITED: (
        ArrivalError,
        "expects copies on a barrier that has not been waited for since it last did",
    ),
    Misuse.IN_VAIN: (
        ArrivalError,
        "waits for a barrier on which not all arrives that is expected, or nothing is",
    ),
}


def misuse(batch: Wave, fault: MisuseError) -> ExecutionError:
    """The error for a wrong use of a barrier."""
    launch, chunk = launch_of(batch), chunk_of(batch)
    error, what = _MISUSES[fault.misuse]
    row = chunk.first + fault.program * chunk.threads
    notes = [
        f"in program {launch.programs_of(np.array([row]))[0]}, by {_at(fault.op)}",
        f"the barrier is number {fault.stage} of its ring; {fault.expected} bytes are expected on "
        f"it, and copies of {fault.begun} have begun",
    ]
    return error(f"`{launch.name}` {what}", loc=fault.op.loc, notes=notes)


def global_race(batch: Wave, op: Operation, race: GlobalRaceError) -> RaceError:
    """The error for a race for global memory."""
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


def _who(launch: ThreadLaunch, who: int) -> str:
    return launch.thread(who) if who < launch.threads else "several threads"


def _at(op: Operation | None) -> str:
    assert op is not None
    return f"`{op.name}` at {op.loc}" if op.loc is not None else f"`{op.name}`"


def buffer_of(op: Operation) -> Shared:
    """The type of the buffer that an operation on shared memory has as its first operand."""
    buffer = op.inputs[0].type
    assert isinstance(buffer, Shared)
    return buffer


def described(op: Operation, byte: int | None = None) -> str:
    """The buffer of an operation in words; of several, the one that a byte is in."""
    found = [allocation(mem) for mem in op.inputs if isinstance(mem.type, Shared)]
    alloc = next((a for a in found if a is not None and _has(a, byte)), found[0])
    if alloc is None:
        return f"the buffer is a {buffer_of(op)}"
    buffer = alloc.result.type
    assert isinstance(buffer, Shared)
    first, last = alloc["at"], alloc["at"] + buffer.bytes - 1
    return f"the buffer is bytes {first} to {last}, {buffer}, by {_at(alloc)}"


def _where(op: Operation, byte: int) -> str:
    return f"at byte {byte} of the program's shared memory; {described(op, byte)}"


def _has(alloc: Operation, byte: int | None) -> bool:
    buffer = alloc.result.type
    assert isinstance(buffer, Shared)
    return byte is None or alloc["at"] <= byte < alloc["at"] + buffer.bytes


def outside(batch: Wave, op: Operation, row: int, offset: int, vector: int) -> SharedBoundsError:
    """The error for an access outside its buffer."""
    buffer = buffer_of(op)
    last = f" to {offset + vector - 1}" if vector > 1 else ""
    return SharedBoundsError(
        f"`{batch.launch.name}` accesses element {offset}{last} of a buffer of {buffer.numel}",
        loc=op.loc,
        notes=[f"in {batch.launch.program(int(batch.rows[row]))}", described(op)],
    )


def bad_vector(batch: Wave, op: Operation, row: int, register: int, what: str) -> VectorAccessError:
    """The error for a vector that memory cannot move in one step."""
    where = batch.launch.element((register,), int(batch.rows[row]))
    return VectorAccessError(
        f"`{batch.launch.name}` accesses a vector {what}", loc=op.loc, notes=[where]
    )


def misaligned_box(batch: Wave, op: Operation, base: int, step: int) -> VectorAccessError:
    """The error for an array of which no boxes can be copied."""
    return VectorAccessError(
        f"`{batch.launch.name}` copies a box of an array at {base:#x} with rows {step} bytes apart, "
        "and both are to be multiples of 16",
        loc=op.loc,
    )


def all_of_warp(batch: Wave, op: Operation) -> None:
    """Refuse an operation of a warp that not all of its lanes have come to."""
    place = place_of(batch)
    if not place.whole_warps:
        raise _divergence(batch, op, "warp", place.lanes)


def all_of_program(batch: Wave, op: Operation) -> None:
    """Refuse an operation of a program that not all of its threads have come to."""
    place = place_of(batch)
    if not place.whole_programs:
        raise _divergence(batch, op, "program", place.threads)


def _divergence(batch: Wave, op: Operation, group: str, size: int) -> DivergenceError:
    launch = launch_of(batch)
    row, absent = place_of(batch).missing(size)
    return DivergenceError(
        f"`{launch.name}` comes to `{op.name}` with some threads of a {group}; it takes all",
        loc=op.loc,
        notes=[
            f"in {launch.program(int(batch.rows[row]))}",
            f"{launch.thread(absent)} is not there",
        ],
    )
