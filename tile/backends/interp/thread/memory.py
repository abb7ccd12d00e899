"""The shared memory of the programs of a chunk: what it holds, and who touched it when.

Threads may touch one place of a program's shared memory without a barrier between only if all of
them read, or all of one operation write the same value, or all count. To see that it is so, every
granule of bytes has two records, of the last write and of the last read. A record is one number:

    clock << bits | who        who: a thread's number, or MANY, or COUNTED

The clock counts the operations on shared memory of the chunk, so it says by which operation, and
whether it was before a barrier: each program knows the clock of its last barrier. A granule that
holds nothing yet has the flag UNDEFINED in its record of writing, and one to which a copy is on
its way, IN_FLIGHT; both flags are higher than any clock, so that one comparison finds all that a
read must not find:

    not (record >= barrier  and  who and flags of the record != the reader)

A granule that a product of a group of warps reads has the flag READING in its record of reading
until the product has been waited for, so that nobody writes it before. What a thread wrote, these
products find behind a fence of that thread: each thread knows the clock of its last one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.place import ThreadMap
from tile.backends.interp.values import Array
from tile.ir.core import Operation

UNDEFINED = 1 << 62
IN_FLIGHT = 1 << 61
WGMMA_READING = 1 << 60
_NOBODY = np.array(-1, np.int64)  # no thread's number
# Programs begin at multiples of this, which no vector exceeds.
ALIGNMENT = 256


class Fault(enum.Enum):
    """What is wrong with an access."""

    READ_AFTER_WRITE = enum.auto()
    WRITE_AFTER_READ = enum.auto()
    WRITE_AFTER_WRITE = enum.auto()
    SAME_STORE = enum.auto()  # threads write different values in one operation
    SAME_COPY = enum.auto()  # threads copy to one place in one operation
    UNDEFINED = enum.auto()
    IN_FLIGHT = enum.auto()
    WGMMA_READING = enum.auto()  # a product goes on reading what is written
    WGMMA_UNFENCED = enum.auto()  # a product reads what was written without a fence behind
    TMA_STORE_UNFENCED = enum.auto()  # a bulk store reads what was written so
    TMA_LOAD_UNFENCED = enum.auto()  # a bulk copy goes where that is so


@dataclass(frozen=True, eq=False)
class Touch:
    """Vectors of shared memory that one operation accesses.

    `start` has the first byte of each, counted from that of the chunk, with axes (row, vector) or,
    if some were chosen, for these; `size` is that of each in bytes. `thread` is the number of the
    thread that accesses each and `barrier` the record of the last barrier of its program; these
    broadcast with `start`.
    """

    op: Operation
    start: Array
    size: int
    thread: Array
    barrier: Array

    def at(self, chosen: Array) -> Touch:
        """Some of the vectors."""
        rows = np.nonzero(chosen)[0]
        start = self.start[chosen]
        return Touch(self.op, start, self.size, self.thread[rows, 0], self.barrier[rows, 0])

    def of_rows(self, chosen: Array) -> Touch:
        """The vectors of some rows of all."""
        rows = np.flatnonzero(chosen)
        return Touch(self.op, self.start[rows], self.size, self.thread[rows], self.barrier[rows])

    def thread_at(self, index: tuple[int, ...]) -> int:
        """The thread that accesses a vector."""
        return int(np.broadcast_to(self.thread, self.start.shape)[index])


class SharedFaultError(Exception):
    """An access of `op` that must not be: by a thread of a program, each by its number.

    `byte` is where it meets what was there, whose record is `record`.
    """

    def __init__(
        self, fault: Fault, op: Operation, program: int, thread: int, byte: int, record: int
    ) -> None:
        super().__init__(fault.name)
        self.fault = fault
        self.op = op
        self.program = program
        self.thread = thread
        self.byte = byte
        self.record = record


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
        self.who = (1 << self.bits) - 1
        self.many = threads
        self.counted = threads + 1
        self._columns_cache: tuple[ThreadMap, Array, Array] | None = None
        self.barriers = np.full(programs, 1 << self.bits, np.int64)  # before clock 1
        self.fences = np.zeros((programs, threads), np.int64)
        self.reading = False  # whether any granule has the flag
        self.ops: list[Operation | None] = [None]  # by clock

    # -- places

    def touch(self, op: Operation, thread_map: ThreadMap, start: Array, size: int) -> Touch:
        """Vectors of `size` bytes at `start` of each thread's program: an array (rows, vectors)."""
        first, barrier = self._columns(thread_map)
        return Touch(op, start + first, size, thread_map.column, barrier)

    def _columns(self, thread_map: ThreadMap) -> tuple[Array, Array]:
        """The first byte of each thread's program, and its last barrier; until there is another."""
        cached = self._columns_cache
        if cached is None or cached[0] is not thread_map:
            program = thread_map.program[:, None]
            cached = self._columns_cache = (thread_map, program * self.size, self.barriers[program])
        return cached[1:]

    def words(self, size: int, vector: int) -> Array:
        """All memory as vectors of `vector` elements of `size` bytes, a row each."""
        return self.bytes.view(f"u{size}").reshape(-1, vector)

    def tick(self, op: Operation) -> int:
        """The record of an operation, without who."""
        self.ops.append(op)
        return len(self.ops) - 1 << self.bits

    def barrier(self, op: Operation, thread_map: ThreadMap) -> None:
        """All threads of the programs have waited for each other."""
        self.barriers[thread_map.programs] = self.tick(op)
        self._columns_cache = None

    def undefine(self, thread_map: ThreadMap, at: int, size: int) -> None:
        """A buffer begins: what it holds is undefined."""
        records = self.writer.reshape(-1, self.size // self.granule)
        first, end = at // self.granule, -(-(at + size) // self.granule)
        if len(thread_map.programs) == len(records):
            records[:, first:end] |= UNDEFINED
        else:
            records[thread_map.programs, first:end] |= UNDEFINED

    # -- accesses

    def read(self, touch: Touch) -> None:
        """Record that vectors are read."""
        granules, thread, barrier = self._granules(touch)
        self._check_defined(touch, granules, thread, barrier)
        record = self.reader[granules]
        now = self.tick(touch.op)
        others = record & self.who != thread
        others &= record >= barrier
        new = now | thread
        if others.any():
            new = np.where(others, now | self.many, new)
        if self.reading:
            new = np.where(record > 0, new | (record & WGMMA_READING), new)
        self._record(self.reader, granules, new, now | self.many)

    def read_together(self, touch: Touch) -> None:
        """Record that each vector is read for several threads.

        What was written since the barrier is refused, even by the thread that asks: others get it.
        """
        granules, _, barrier = self._granules(touch)
        self._check_defined(touch, granules, _NOBODY, barrier)
        new: Array = np.array(self.tick(touch.op) | self.many)
        if self.reading:
            record = self.reader[granules]
            new = np.where(record > 0, new | (record & WGMMA_READING), new)
        self.reader[granules] = new

    def fence(self, op: Operation, thread_map: ThreadMap) -> None:
        """Products from now on find what these threads have written."""
        self.fences[thread_map.program, thread_map.thread] = self.tick(op)

    def start_wgmma_reads(self, touch: Touch) -> None:
        """Record that a product begins to read vectors, for all threads of its group."""
        granules, _, barrier = self._granules(touch)
        self._check_defined(touch, granules, _NOBODY, barrier)
        self._check_fenced(Fault.WGMMA_UNFENCED, touch, granules)
        self.reader[granules] = self.tick(touch.op) | self.many | WGMMA_READING
        self.reading = True

    def _check_fenced(self, fault: Fault, touch: Touch, granules: Array) -> None:
        """Refuse what a thread wrote with no fence of that thread after."""
        record = self.writer[granules] & ~UNDEFINED
        who = record & self.who
        program = granules * self.granule // self.size
        own_fence = self.fences[program, np.minimum(who, self.many - 1)]
        fenced = np.where(who < self.many, own_fence, self.fences.min(axis=1)[program])
        wrong = record > fenced
        if wrong.any():
            self._raise_first(fault, touch, granules, wrong, record)

    def keep_wgmma_reads(self, touch: Touch) -> None:
        """A product that others have shared granules with still reads them."""
        granules, _, _ = self._granules(touch)
        self.reader[granules] |= WGMMA_READING

    def end_wgmma_reads(self, touch: Touch) -> None:
        """A product has read its vectors."""
        granules, _, _ = self._granules(touch)
        self.reader[granules] = self.tick(touch.op) | self.many

    def write(self, touch: Touch, words: Array, values: Array) -> None:
        """Write `values` to rows of `words` that the vectors are, and record that."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, granules, thread, barrier)
        self.put(touch, words, values)

    def write_together(self, touch: Touch, words: Array, values: Array) -> None:
        """Write vectors of which several threads have the parts, and none may count as its own."""
        granules, _, barrier = self._granules(touch)
        self._check_exclusive(touch, granules, _NOBODY, barrier)
        self.put(touch, words, values)
        self.writer[granules] = self.tick(touch.op) | self.many

    def put(self, touch: Touch, words: Array, values: Array) -> None:
        """Write without asking who was there before."""
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
        """Add 1 to the i32 that the vectors are, each in one step."""
        granules, thread, barrier = self._granules(touch)
        record = self.writer[granules]
        who = record & self.who
        record = np.where(who == self.counted, record & (UNDEFINED | IN_FLIGHT), record)
        self._check_defined(touch, granules, thread, barrier, record)
        self._check_exclusive(touch, granules, thread, barrier, record)
        # A thread that counts where it wrote before remains the one whom others must wait for.
        own = (who == thread) & (record >= barrier)
        self.writer[granules] = self.tick(touch.op) | np.where(own, thread, self.counted)
        np.add.at(self.bytes.view(np.int32), touch.start // 4, np.int32(1))

    def start_copy(self, touch: Touch) -> None:
        """Copies to the vectors are on their way."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, granules, thread, barrier)
        new = self.tick(touch.op) | thread | IN_FLIGHT
        self.writer[granules] = new
        several = self.writer[granules] != new
        if several.any():
            self._raise_first(
                Fault.SAME_COPY, touch, granules, several, self.writer[granules] & ~IN_FLIGHT
            )

    def write_any(self, touch: Touch) -> None:
        """Record that vectors are written, whatever with."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, granules, thread, barrier)
        self.writer[granules] = self.tick(touch.op) | thread

    def read_any(self, touch: Touch) -> None:
        """Record that vectors are read by all threads, whatever they hold."""
        granules, _, _ = self._granules(touch)
        self.reader[granules] = self.tick(touch.op) | self.many

    def start_tma_store(self, touch: Touch) -> None:
        """Record that a bulk store reads vectors."""
        granules, thread, barrier = self._granules(touch)
        self._check_defined(touch, granules, thread, barrier)
        self._check_fenced(Fault.TMA_STORE_UNFENCED, touch, granules)
        self.read_any(touch)

    def start_tma_load(self, touch: Touch) -> None:
        """A bulk copy to the vectors is on its way, behind all that threads did there."""
        granules, thread, barrier = self._granules(touch)
        self._check_exclusive(touch, granules, thread, barrier)
        self._check_fenced(Fault.TMA_LOAD_UNFENCED, touch, granules)
        self.writer[granules] = self.tick(touch.op) | thread | IN_FLIGHT

    def complete_tma_load(self, touch: Touch, words: Array, values: Array) -> None:
        """A bulk copy has arrived, and all threads have waited: it counts as before any barrier."""
        granules, _, _ = self._granules(touch)
        words[touch.start // touch.size] = values
        self.writer[granules] = 0

    # -- records

    def _granules(self, touch: Touch) -> tuple[Array, Array, Array]:
        """The granules of vectors, in an axis of their own if there are several, and who asks."""
        first = touch.start >> self.shift
        count = touch.size // self.granule
        if count == 1:
            return first, touch.thread, touch.barrier
        indices = first[..., None] + np.arange(count)
        return indices, touch.thread[..., None], touch.barrier[..., None]

    def _check_defined(
        self,
        touch: Touch,
        granules: Array,
        thread: Array,
        barrier: Array,
        record: Array | None = None,
    ) -> None:
        """Refuse to read what another thread wrote since the barrier, or what is not there yet."""
        if record is None:
            record = self.writer[granules]
        wrong = record & (self.who | UNDEFINED | IN_FLIGHT) != thread
        wrong &= record >= barrier
        if wrong.any():
            self._raise_first(Fault.READ_AFTER_WRITE, touch, granules, wrong, record)

    def _check_exclusive(
        self,
        touch: Touch,
        granules: Array,
        thread: Array,
        barrier: Array,
        record: Array | None = None,
    ) -> None:
        """Refuse to write what another thread wrote or read since the barrier."""
        if record is None:
            record = self.writer[granules]
        record = record & ~UNDEFINED
        wrong = record & (self.who | IN_FLIGHT) != thread
        wrong &= record >= barrier
        if wrong.any():
            self._raise_first(Fault.WRITE_AFTER_WRITE, touch, granules, wrong, record)
        record = self.reader[granules]
        wrong = record & self.who != thread
        wrong &= record >= barrier
        if wrong.any():
            self._raise_first(Fault.WRITE_AFTER_READ, touch, granules, wrong, record)

    def _record(self, records: Array, granules: Array, new: Array, many: int) -> Array | None:
        """Record; which granules were touched by several threads, None for no one's."""
        records[granules] = new
        several: Array = records[granules] != new
        if not several.any():
            return None
        records[granules[several]] = many
        return np.equal(records[granules], many)

    def _raise_first(
        self, fault: Fault, touch: Touch, granules: Array, wrong: Array, records: Array
    ) -> None:
        """Raise the fault of the first access that is wrong."""
        index = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
        granule = granules[index]
        while granule.ndim:  # of a vector of several
            granule = granule[0]
        record = records[index]
        while record.ndim:
            record = record[0]
        record = int(record)
        if record & IN_FLIGHT:
            fault = Fault.IN_FLIGHT
        elif record & UNDEFINED:
            fault = Fault.UNDEFINED
        elif record & WGMMA_READING:
            fault = Fault.WGMMA_READING
        vector = index[: touch.start.ndim]
        address = max(int(granule) * self.granule, int(touch.start[vector]))
        program, byte = divmod(address, self.size)
        raise SharedFaultError(fault, touch.op, program, touch.thread_at(vector), byte, record)

    def operation_of(self, record: int) -> tuple[Operation | None, int]:
        """The operation of a record, and the thread; none of them, if several."""
        clean = record & ~(UNDEFINED | IN_FLIGHT | WGMMA_READING)
        return self.ops[clean >> self.bits], clean & self.who
