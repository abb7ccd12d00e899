"""The shared memory of the programs of a chunk: its bytes, and records of the last accesses.

Threads may access one shared-memory address without a barrier in between only if all of them read,
or all write the same value in one operation, or all increment it atomically. To check this, every
granule of bytes has two records: one of the last write, one of the last read. A record is an i64:

    clock << bits | thread        thread: a thread's number, or `many`, or `counted`, or `many`
                                  of one warpgroup

The clock counts the chunk's operations on shared memory. It identifies the operation, and tells
whether that came before a barrier, since each program knows the clock of its last barrier. The
write record of a granule that was never written has the flag UNDEFINED; that of a granule to which
an asynchronous copy is in flight has IN_FLIGHT. Both flags are higher than any clock, so that one
comparison finds everything that makes a read illegal:

    record >= barrier  and  thread and flags of the record != the reader

A barrier of each warpgroup has a clock, too, for accesses within one.

The read record of a granule that a wgmma or TMA store reads has the flag ASYNC_READING until that
has been waited for, so that no write precedes that wait. wgmma and TMA see what a thread wrote only
after a proxy fence of that thread: each thread knows the clock of its last fence.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tile.backends.interp.fault_report import first_true
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.values import Array
from tile.backends.interp.virtual_memory import DetectedFaultError
from tile.errors import (
    CopyInFlightError,
    ExecutionError,
    RaceError,
    UndefinedReadError,
    WgmmaInFlightError,
)
from tile.ir.core import Operation
from tile.ir.op_definition import Trait
from tile.simt.ops.wgmma import WARPGROUP_THREADS

UNDEFINED = 1 << 62
IN_FLIGHT = 1 << 61
ASYNC_READING = 1 << 60
_NO_THREAD = np.array(-1, np.int64)  # no thread's number
# Programs begin at multiples of this, which no vector exceeds.
ALIGNMENT = 256


class Fault(enum.Enum):
    """Kinds of illegal accesses.

    Each has its error, what the kernel does wrong, and what the other thread did, as a participle;
    that is empty if no other thread is involved.
    """

    READ_AFTER_WRITE = (
        RaceError,
        "reads shared memory that another thread wrote, with no barrier in between",
        "written",
    )
    WRITE_AFTER_READ = (
        RaceError,
        "writes shared memory that another thread read, with no barrier in between",
        "read",
    )
    WRITE_AFTER_WRITE = (
        RaceError,
        "writes shared memory that another thread wrote, with no barrier in between",
        "written",
    )
    SAME_STORE = (
        RaceError,
        "writes different values to one shared-memory address from several threads at once",
        "written",
    )
    SAME_COPY = (
        RaceError,
        "copies to one shared-memory address from several threads at once",
        "copy started",
    )
    UNDEFINED = UndefinedReadError, "reads shared memory that was never written", ""
    IN_FLIGHT = (
        CopyInFlightError,
        "accesses shared memory that an asynchronous copy still writes; cp_async_wait_group "
        "waits for it",
        "copy started",
    )
    WGMMA_READING = (
        WgmmaInFlightError,
        "writes shared memory that a wgmma in flight still reads; wgmma_wait waits for it",
        "wgmma started",
    )
    STORE_READING = (
        CopyInFlightError,
        "writes shared memory that a TMA store still reads; tma_store_wait waits for it",
        "TMA store started",
    )
    STORE_AT_END = (
        CopyInFlightError,
        "ends while a TMA store still reads shared memory; tma_store_wait waits for it",
        "",
    )
    WGMMA_UNFENCED = (
        RaceError,
        "reads with wgmma what a thread wrote to shared memory, with no fence_proxy_async by "
        "that thread",
        "written",
    )
    TMA_STORE_UNFENCED = (
        RaceError,
        "reads with a TMA store what a thread wrote, with no fence_proxy_async by that thread in "
        "between",
        "written",
    )
    TMA_LOAD_UNFENCED = (
        RaceError,
        "overwrites with a TMA load what a thread wrote, with no fence_proxy_async by that thread",
        "written",
    )

    def __init__(self, error: Callable[..., ExecutionError], problem: str, other: str) -> None:
        self.error = error
        self.problem = problem
        self.other = other


@dataclass(frozen=True, eq=False)
class Touch:
    """Vectors of shared memory that one operation accesses.

    `start` is the first byte of each, relative to the chunk's memory, with axes (row, vector), or
    (vector) after a selection by `at`. `size` is the bytes of a vector. `thread` is the number of
    the accessing thread, and `barrier` the record of the last barrier of its program; both
    broadcast with `start`. grouped: True if what reads a vector for several threads does so for
    those of one warpgroup.
    """

    op: Operation
    start: Array
    size: int
    thread: Array
    barrier: Array
    grouped: bool = False

    def at(self, chosen: Array) -> Touch:
        """Return the vectors where `chosen` is true."""
        rows = np.nonzero(chosen)[0]
        start = self.start[chosen]
        thread, barrier = self.thread[rows, 0], self.barrier[rows, 0]
        return replace(self, start=start, thread=thread, barrier=barrier)

    def of_rows(self, chosen: Array) -> Touch:
        """Return the vectors of the chosen rows."""
        rows = np.flatnonzero(chosen)
        start, thread, barrier = (x[rows] for x in (self.start, self.thread, self.barrier))
        return replace(self, start=start, thread=thread, barrier=barrier)

    def thread_at(self, index: tuple[int, ...]) -> int:
        """Return the thread that accesses the vector at an index."""
        return int(np.broadcast_to(self.thread, self.start.shape)[index])


@dataclass(eq=False)
class SharedFaultError(DetectedFaultError):
    """An illegal access of `op` by a thread of a program, both by number.

    `byte` is the address in the program's shared memory; `record` is that of the earlier access.
    """

    fault: Fault
    op: Operation
    program: int
    thread: int
    byte: int
    record: int


# Granules, with the thread that accesses each and the record of the last barrier of its program.
Granules: TypeAlias = tuple[Array, Array, Array]


class SharedMemory:
    """Shared memory with its records; see the top of the file."""

    def __init__(self, programs: int, size: int, granule: int, threads: int) -> None:
        self.size = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        self.granule = granule
        self.shift = granule.bit_length() - 1
        self.bytes = np.zeros(programs * self.size, np.uint8)
        count = len(self.bytes) // granule
        self.writer = np.full(count, UNDEFINED, np.int64)
        self.reader = np.full(count, -1, np.int64)
        self.bits = threads.bit_length() + 1
        self.thread_mask = (1 << self.bits) - 1
        self.many = threads
        self.counted = threads + 1
        self._columns_cache: tuple[ThreadMap, Array, Array] | None = None
        self.barriers = np.full(programs, 1 << self.bits, np.int64)  # before clock 1
        self.warpgroup_barriers = self.barriers.copy()
        self.fences = np.zeros((programs, threads), np.int64)
        self.reading = False  # True if any granule may have the flag ASYNC_READING
        self.ops: list[Operation | None] = [None]  # by clock

    # -- vectors, clock and barriers

    def touch(self, op: Operation, thread_map: ThreadMap, start: Array, size: int) -> Touch:
        """Return vectors of `size` bytes; `start` is relative to each program: (row, vector)."""
        first, barrier = self._columns(thread_map)
        return Touch(op, start + first, size, thread_map.column, barrier)

    def _columns(self, thread_map: ThreadMap) -> tuple[Array, Array]:
        """Return the first byte of each thread's program, and the record of its last barrier.

        Cached until the next barrier, or another thread map.
        """
        cached = self._columns_cache
        if cached is None or cached[0] is not thread_map:
            program = thread_map.program[:, None]
            cached = self._columns_cache = (thread_map, program * self.size, self.barriers[program])
        return cached[1:]

    def words(self, size: int, vector: int) -> Array:
        """Return all memory as rows of `vector` elements of `size` bytes."""
        return self.bytes.view(f"u{size}").reshape(-1, vector)

    def tick(self, op: Operation) -> int:
        """Advance the clock; return the record of an operation, without a thread."""
        self.ops.append(op)
        return len(self.ops) - 1 << self.bits

    def barrier(self, op: Operation, thread_map: ThreadMap) -> None:
        """Record a barrier of all threads of the programs."""
        self.barriers[thread_map.programs] = self.tick(op)
        self._columns_cache = None

    def warpgroup_barrier(self, op: Operation, thread_map: ThreadMap) -> None:
        """Record a barrier of the threads of each warpgroup of the programs."""
        self.warpgroup_barriers[thread_map.programs] = self.tick(op)

    def _many_of_warpgroup(self, thread: Array) -> Array:
        """Return the number that stands for several threads of the warpgroup of a thread."""
        return self.counted + 1 + np.maximum(thread, 0) // WARPGROUP_THREADS

    def _is_ordered(self, touch: Touch, granules: Array, record: Array) -> Array:
        """Return which records are of an access that a barrier of the warpgroup separates."""
        number = record & self.thread_mask
        group = np.where(number < self.many, number // WARPGROUP_THREADS, number - self.counted - 1)
        own = touch.thread // WARPGROUP_THREADS
        own = own[(..., *(None,) * (granules.ndim - touch.start.ndim))]
        barrier = self.warpgroup_barriers[granules * self.granule // self.size]
        ordered: Array = (group == own) & (record < barrier)
        return ordered

    def undefine(self, thread_map: ThreadMap, at: int, size: int) -> None:
        """Mark the bytes of a new buffer as undefined."""
        records = self.writer.reshape(-1, self.size // self.granule)
        first, end = at // self.granule, -(-(at + size) // self.granule)
        if len(thread_map.programs) == len(records):
            records[:, first:end] |= UNDEFINED
        else:
            records[thread_map.programs, first:end] |= UNDEFINED

    # -- accesses

    def read(self, touch: Touch) -> None:
        """Check and record a read of vectors."""
        granules, thread, barrier = self._granules(touch)
        self._check_defined(touch, (granules, thread, barrier))
        record = self.reader[granules]
        now = self.tick(touch.op)
        others = record & self.thread_mask != thread
        others &= record >= barrier
        new = now | thread
        if others.any():
            new = np.where(others, now | self.many, new)
        if self.reading:
            new = np.where(record > 0, new | (record & ASYNC_READING), new)
        self._record(self.reader, granules, new, now | self.many)

    def read_for_warp(self, touch: Touch) -> None:
        """Check and record a read of vectors that delivers each vector to several threads.

        A write since the barrier is illegal even if the thread that passes the address wrote it,
        since other threads receive the data.
        """
        granules, _, barrier = self._granules(touch)
        self._check_defined(touch, (granules, _NO_THREAD, barrier))
        new: Array = np.array(self.tick(touch.op) | self.many)
        if self.reading:
            record = self.reader[granules]
            new = np.where(record > 0, new | (record & ASYNC_READING), new)
        self.reader[granules] = new

    def fence(self, op: Operation, thread_map: ThreadMap) -> None:
        """Record a proxy fence: later wgmma and TMA see what these threads have written."""
        self.fences[thread_map.program, thread_map.thread] = self.tick(op)

    def start_async_reads(self, touch: Touch) -> None:
        """Check and record that a TMA store, or a wgmma for a warpgroup, starts to read vectors."""
        granules, thread, barrier = self._granules(touch)
        is_wgmma = touch.op.has_trait(Trait.IN_FLIGHT)
        reader = _NO_THREAD if is_wgmma else thread
        self._check_defined(touch, (granules, reader, barrier))
        unfenced = Fault.WGMMA_UNFENCED if is_wgmma else Fault.TMA_STORE_UNFENCED
        self._check_fenced(unfenced, touch, granules)
        self.reader[granules] = self.tick(touch.op) | self._readers(touch, granules) | ASYNC_READING
        self.reading = True

    def _check_fenced(self, fault: Fault, touch: Touch, granules: Array) -> None:
        """Raise the fault for a granule that a thread wrote with no fence of that thread after."""
        record = self.writer[granules] & ~UNDEFINED
        writer = record & self.thread_mask
        program = granules * self.granule // self.size
        own_fence = self.fences[program, np.minimum(writer, self.many - 1)]
        fenced = np.where(writer < self.many, own_fence, self.fences.min(axis=1)[program])
        wrong = record > fenced
        if wrong.any():
            self._raise_first(fault, touch, granules, wrong, record)

    def keep_async_reads(self, touch: Touch) -> None:
        """Restore the flag of granules that something in flight reads, after another read's end."""
        granules, _, _ = self._granules(touch)
        self.reader[granules] |= ASYNC_READING

    def write(self, touch: Touch, words: Array, values: Array) -> None:
        """Check, do and record a write of `values` to the rows of `words` that are the vectors."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, (granules, thread, barrier))
        self.put(touch, words, values)

    def write_for_warp(self, touch: Touch, words: Array, values: Array) -> None:
        """Write vectors that several threads hold together; no thread counts as their writer."""
        granules, _, barrier = self._granules(touch)
        self._check_exclusive(touch, (granules, _NO_THREAD, barrier))
        self.put(touch, words, values)
        several = self._readers(replace(touch, grouped=True), granules)
        self.writer[granules] = self.tick(touch.op) | several

    def put(self, touch: Touch, words: Array, values: Array) -> None:
        """Do and record a write without checking earlier accesses."""
        granules, thread, _ = self._granules(touch)
        now = self.tick(touch.op)
        rows = touch.start // touch.size
        words[rows] = values
        several = self._record(self.writer, granules, now | thread, now | self.many)
        if several is not None:
            if touch.size > self.granule:
                several = np.any(several, axis=-1)
            wrong = np.logical_and(several, np.any(words[rows] != values, axis=-1))
            if wrong.any():
                self._raise_first(Fault.SAME_STORE, touch, granules, wrong, self.writer[granules])

    def count(self, touch: Touch) -> None:
        """Add 1 atomically to the i32 values that the vectors are."""
        granules, thread, barrier = self._granules(touch)
        record = self.writer[granules]
        writer = record & self.thread_mask
        record = np.where(writer == self.counted, record & (UNDEFINED | IN_FLIGHT), record)
        self._check_defined(touch, (granules, thread, barrier), record)
        self._check_exclusive(touch, (granules, thread, barrier), record)
        # If a thread increments what it wrote before, others must still wait for that thread.
        own = (writer == thread) & (record >= barrier)
        self.writer[granules] = self.tick(touch.op) | np.where(own, thread, self.counted)
        np.add.at(self.bytes.view(np.int32), touch.start // 4, np.int32(1))

    def start_copy(self, touch: Touch) -> None:
        """Check and record the start of an asynchronous copy to the vectors."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, (granules, thread, barrier))
        new = self.tick(touch.op) | thread | IN_FLIGHT
        self.writer[granules] = new
        several = self.writer[granules] != new
        if several.any():
            self._raise_first(
                Fault.SAME_COPY, touch, granules, several, self.writer[granules] & ~IN_FLIGHT
            )

    def write_any(self, touch: Touch) -> None:
        """Check and record a write of vectors whose values are not kept here."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, (granules, thread, barrier))
        self.writer[granules] = self.tick(touch.op) | thread

    def read_any(self, touch: Touch) -> None:
        """Record a read of vectors by all threads, or the end of an async read, without a check."""
        granules, _, _ = self._granules(touch)
        self.reader[granules] = self.tick(touch.op) | self._readers(touch, granules)

    def _readers(self, touch: Touch, granules: Array) -> Array:
        """Return the number for the threads for which vectors are accessed together."""
        if not touch.grouped:
            return np.array(self.many, np.int64)
        several = self._many_of_warpgroup(touch.thread)
        return several[(..., *(None,) * (granules.ndim - touch.start.ndim))]

    def start_tma_load(self, touch: Touch) -> None:
        """Check and record the start of a TMA load to the vectors.

        A negative thread is a producer's, which is not a thread of the program.
        """
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, (granules, thread, barrier))
        self._check_fenced(Fault.TMA_LOAD_UNFENCED, touch, granules)
        writer = np.where(thread < 0, self.many, thread)
        self.writer[granules] = self.tick(touch.op) | writer | IN_FLIGHT

    def complete_tma_load(self, touch: Touch, words: Array, values: Array) -> None:
        """Complete a TMA load. All threads have waited, so it counts as before any barrier."""
        granules, _, _ = self._granules(touch)
        words[touch.start // touch.size] = values
        self.writer[granules] = 0

    # -- records

    def _granules(self, touch: Touch) -> Granules:
        """Return the granules of vectors, and their threads and barriers.

        If a vector has several granules, they have an additional last axis.
        """
        first = touch.start >> self.shift
        count = touch.size // self.granule
        if count == 1:
            return first, touch.thread, touch.barrier
        indices = first[..., None] + np.arange(count)
        return indices, touch.thread[..., None], touch.barrier[..., None]

    def _check_defined(self, touch: Touch, at: Granules, record: Array | None = None) -> None:
        """Raise a fault for a read of undefined bytes, or of another thread's since the barrier."""
        record = self.writer[at[0]] if record is None else record
        self._check(Fault.READ_AFTER_WRITE, touch, at, record, UNDEFINED | IN_FLIGHT)

    def _check_exclusive(self, touch: Touch, at: Granules, record: Array | None = None) -> None:
        """Raise a fault for a write of bytes that another thread accessed since the barrier."""
        record = self.writer[at[0]] if record is None else record
        self._check(Fault.WRITE_AFTER_WRITE, touch, at, record & ~UNDEFINED, IN_FLIGHT)
        self._check(Fault.WRITE_AFTER_READ, touch, at, self.reader[at[0]])

    def _check(
        self, fault: Fault, touch: Touch, at: Granules, record: Array, flags: int = 0
    ) -> None:
        """Raise a fault for records since the barrier of another thread, or with one of `flags`."""
        granules, thread, barrier = at
        wrong = record & (self.thread_mask | flags) != thread
        wrong &= record >= barrier
        if wrong.any():
            wrong &= ~self._is_ordered(touch, granules, record)
        if wrong.any():
            self._raise_first(fault, touch, granules, wrong, record)

    def _record(self, records: Array, granules: Array, new: Array, many: int) -> Array | None:
        """Write records; return which granules several threads accessed (None: none)."""
        records[granules] = new
        several: Array = records[granules] != new
        if not several.any():
            return None
        records[granules[several]] = many
        return np.equal(records[granules], many)

    def _raise_first(
        self, fault: Fault, touch: Touch, granules: Array, wrong: Array, records: Array
    ) -> None:
        """Raise `SharedFaultError` for the first wrong access; flags refine `fault`."""
        index = first_true(wrong)
        granule = granules[index]
        while granule.ndim:  # the vector has several granules
            granule = granule[0]
        record = records[index]
        while record.ndim:
            record = record[0]
        record = int(record)
        if record & IN_FLIGHT:
            fault = Fault.IN_FLIGHT
        elif record & UNDEFINED:
            fault = Fault.UNDEFINED
        elif record & ASYNC_READING:
            reader, _ = self.operation_of(record)
            is_wgmma = reader is not None and reader.has_trait(Trait.IN_FLIGHT)
            fault = Fault.WGMMA_READING if is_wgmma else Fault.STORE_READING
        vector = index[: touch.start.ndim]
        address = max(int(granule) * self.granule, int(touch.start[vector]))
        program, byte = divmod(address, self.size)
        raise SharedFaultError(fault, touch.op, program, touch.thread_at(vector), byte, record)

    def operation_of(self, record: int) -> tuple[Operation | None, int]:
        """Return the operation and the thread of a record; `many` stands for several threads."""
        clean = record & ~(UNDEFINED | IN_FLIGHT | ASYNC_READING)
        thread = clean & self.thread_mask
        return self.ops[clean >> self.bits], self.many if thread > self.counted else thread
