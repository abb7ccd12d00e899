"""Asynchronous operations of a chunk of programs that are in flight.

- cp.async copies, by thread and commit group (`InFlightCopies`).
- wgmmas, by thread: those that no `wgmma_wait` has completed yet (`InFlightWgmma`).
- TMA stores, by program, that still read (`InFlightStores`).
- mbarriers, and the TMA loads that complete on them (`Mbarriers`).

A TMA load completes as late as it may: at the wait on its mbarrier. Until then its destination is
flagged as in flight, so that an early read is detected. An mbarrier counts its phases, and a wait
names a phase by its parity, as `mbarrier.try_wait.parity` does. A wait for a phase that is over
returns at once; a wait for a phase that can never complete is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.program_batch import ParkedError
from tile.backends.interp.simulator.shared_memory import (
    Fault,
    SharedFaultError,
    SharedMemory,
    Touch,
)
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.values import Array, Rows
from tile.backends.interp.virtual_memory import DetectedFaultError, Memory
from tile.errors import MbarrierError, RaceError
from tile.ir.core import Operation


@dataclass(frozen=True, eq=False)
class PendingOperation:
    """A cp.async or wgmma in flight: the shared memory that it writes or reads, by thread.

    `thread` is the thread's number in the chunk. `number` is the copy's commit group, or the
    wgmma's sequence number. `values` are what a copy writes, with axes (thread, vector, element).
    The vectors of a warpgroup's operand are divided among its threads.
    """

    touches: tuple[Touch, ...]
    thread: Rows
    number: Array
    values: Array | None = None

    def take_rows(self, chosen: Array) -> PendingOperation:
        """Return the part that belongs to the `chosen` threads."""
        touches = tuple(touch.of_rows(chosen) for touch in self.touches)
        values = None if self.values is None else self.values[chosen]
        return PendingOperation(touches, self.thread[chosen], self.number[chosen], values)


class InFlight:
    """The operations of a chunk that nobody has waited for yet, in the order of their start."""

    def __init__(self, memory: SharedMemory, threads: int) -> None:
        self.memory = memory
        self.counts = np.zeros(threads, np.int64)  # commit groups, or wgmmas, of each thread
        self.pending: list[PendingOperation] = []

    def complete(self, thread_map: ThreadMap, pending: int) -> Iterator[PendingOperation]:
        """Remove and yield the operations of these threads, except the last `pending` numbers."""
        finished = np.zeros(len(self.counts), np.int64)
        finished[thread_map.numbers] = self.counts[thread_map.numbers] - pending
        operations, self.pending = self.pending, []
        for operation in operations:
            done = operation.number < finished[operation.thread]
            if not done.all():
                self.pending.append(operation.take_rows(~done) if done.any() else operation)
            if done.any():
                yield operation if done.all() else operation.take_rows(done)


class InFlightCopies(InFlight):
    """The cp.async copies of a chunk in flight."""

    def begin(
        self, touch: Touch, thread_map: ThreadMap, values: Array, active: Array | None = None
    ) -> None:
        """Start to copy vectors, those of the threads that are `active` (None: all)."""
        thread = thread_map.numbers
        copy = PendingOperation((touch,), thread, self.counts[thread], values)
        if active is not None:
            copy = copy.take_rows(active)
        self.memory.start_copy(copy.touches[0])
        self.pending.append(copy)

    def commit(self, thread_map: ThreadMap) -> None:
        """Commit the copies of these threads since their last commit as one group."""
        self.counts[thread_map.numbers] += 1

    def wait(self, thread_map: ThreadMap, pending: int) -> None:
        """Complete the copies of these threads, except their last `pending` groups."""
        for copy in self.complete(thread_map, pending):
            assert copy.values is not None
            words = self.memory.words(copy.values.itemsize, copy.values.shape[-1])
            self.memory.put(copy.touches[0], words, copy.values)


class InFlightWgmma(InFlight):
    """The wgmmas of a chunk that still read shared memory."""

    def start(self, thread_map: ThreadMap, *touches: Touch) -> None:
        """Start a wgmma that reads these vectors."""
        for touch in touches:
            self.memory.start_wgmma_reads(touch)
        thread = thread_map.numbers
        self.pending.append(PendingOperation(touches, thread, self.counts[thread]))
        self.counts[thread] += 1

    def wait(self, thread_map: ThreadMap, pending: int) -> None:
        """Complete the wgmmas of these threads, except their last `pending`."""
        for reads in self.complete(thread_map, pending):
            for touch in reads.touches:
                self.memory.end_async_reads(touch)
        for reads in self.pending:
            for touch in reads.touches:
                self.memory.keep_async_reads(touch)


class InFlightStores:
    """The TMA stores of a chunk that still read shared memory."""

    def __init__(self, memory: SharedMemory, programs: int) -> None:
        self.memory = memory
        self.counts = np.zeros(programs, np.int64)  # commit groups of each program
        self.pending: list[tuple[Rows, Array, Touch]] = []  # programs, group numbers, vectors

    def start(self, programs: Rows, touch: Touch) -> None:
        """Start a store that reads vectors, a program in each row."""
        self.memory.start_tma_store(touch)
        self.pending.append((programs, self.counts[programs], touch))
        self.counts[programs] += 1

    def wait(self, programs: Rows, pending: int) -> None:
        """Complete the reads of some programs' stores, except their last `pending` groups."""
        finished = np.zeros(len(self.counts), np.int64)
        finished[programs] = self.counts[programs] - pending
        stores, self.pending = self.pending, []
        for owners, numbers, touch in stores:
            done = numbers < finished[owners]
            if done.any():
                self.memory.end_async_reads(touch.of_rows(done))
            if not done.all():
                self.pending.append((owners[~done], numbers[~done], touch.of_rows(~done)))
        for _, _, touch in self.pending:
            self.memory.keep_async_reads(touch)

    def end(self, programs: Rows) -> None:
        """Raise `SharedFaultError` for a store of programs that end, if it still reads."""
        for owners, _, touch in self.pending:
            ended = np.flatnonzero(np.isin(owners, programs))
            if len(ended):
                program, start = int(owners[ended[0]]), int(touch.start[ended[0], 0])
                at, fault = start % self.memory.size, Fault.STORE_AT_END
                raise SharedFaultError(fault, touch.op, program, 0, at, 0)


_BYTES, _VECTOR_BYTES = 8, 16  # size of an mbarrier, and of the vectors in which it is accessed
_NO_TX = -1  # expected bytes of a phase without expect_tx


class MbarrierMisuse(enum.Enum):
    """Kinds of wrong uses of an mbarrier: the error, and what the kernel does wrong."""

    NOT_INITIALIZED = MbarrierError, "uses an mbarrier that mbarrier_init has not initialized"
    ALREADY_INITIALIZED = (
        MbarrierError,
        "initializes an mbarrier again, with no mbarrier_inval before",
    )
    UNSYNCHRONIZED = (
        RaceError,
        "uses an mbarrier that another thread initialized, with no `barrier` in between",
    )
    UNFENCED = RaceError, "uses an mbarrier with no fence_proxy_async since its initialization"
    STILL_WAITED_FOR = (
        RaceError,
        "invalidates an mbarrier on which other threads may still wait",
    )
    PHASE_PENDING = (
        MbarrierError,
        "expects bytes on an mbarrier whose current phase has not been waited for",
    )
    NEVER_COMPLETES = (
        MbarrierError,
        "waits on an mbarrier whose phase never completes: not all expected bytes arrive, or none",
    )


@dataclass(eq=False)
class MbarrierMisuseError(DetectedFaultError):
    """A wrong use of an mbarrier by `op`, in the program with this number in the chunk."""

    misuse: MbarrierMisuse
    op: Operation
    program: int
    stage: int
    expected: int
    started: int


@dataclass(frozen=True, eq=False)
class MbarrierUse:
    """A use of an array of mbarriers by an operation, in some programs.

    `offset` is that of the array in shared memory, in bytes; `stage` is the index of the mbarrier,
    for each program.
    """

    op: Operation
    offset: int
    programs: Rows
    stage: Array

    def touch(self, memory: SharedMemory, stages: int) -> Touch:
        """Return an access to the whole array by the first thread of each program."""
        count = -(-stages * _BYTES // _VECTOR_BYTES)
        begin = self.offset + self.programs * memory.size
        start = begin[:, None] + np.arange(count) * _VECTOR_BYTES
        first = np.zeros((len(self.programs), 1), np.int64)
        barrier = memory.barriers[self.programs][:, None]
        return Touch(self.op, start, _VECTOR_BYTES, first, barrier)

    def take_rows(self, chosen: Array) -> MbarrierUse:
        """Return the use in some of the programs."""
        return MbarrierUse(self.op, self.offset, self.programs[chosen], self.stage[chosen])


@dataclass(eq=False)
class _MbarrierArray:
    """The mbarriers of a buffer in all programs: arrays (program), and (program, stage).

    `initialized` and `waited` are records as of shared memory; 0 means never.
    """

    initialized: Array
    waited: Array
    phase: Array
    expected: Array
    started: Array
    arrived: Array  # record of the program's last arrive

    @classmethod
    def of(cls, programs: int, stages: int) -> _MbarrierArray:
        initialized, waited = (np.zeros(programs, np.int64) for _ in range(2))
        each = [np.zeros((programs, stages), np.int64) for _ in range(4)]
        return cls(initialized, waited, *each)


@dataclass(frozen=True, eq=False)
class _TmaLoad:
    """The vectors of a load in flight, a program in each row: axes (program, vector, ...)."""

    use: MbarrierUse
    touch: Touch
    values: Array

    def take_rows(self, chosen: Array) -> _TmaLoad:
        """Return the load in some of the programs."""
        return _TmaLoad(self.use.take_rows(chosen), self.touch.of_rows(chosen), self.values[chosen])


class Mbarriers:
    """The mbarriers of a chunk, and the TMA loads in flight."""

    def __init__(self, memory: SharedMemory, programs: int) -> None:
        self.memory = memory
        self.programs = programs
        self.arrays: dict[int, _MbarrierArray] = {}
        self.loads: list[_TmaLoad] = []

    def init(self, use: MbarrierUse, stages: int) -> None:
        """Initialize all mbarriers of an array."""
        array = self.arrays.setdefault(use.offset, _MbarrierArray.of(self.programs, stages))
        self._check(array.initialized[use.programs] == 0, MbarrierMisuse.ALREADY_INITIALIZED, use)
        if array.phase.shape[1] != stages:
            array = self.arrays[use.offset] = _MbarrierArray.of(self.programs, stages)
        self.memory.write_any(use.touch(self.memory, stages))
        array.initialized[use.programs] = self.memory.tick(use.op)
        array.waited[use.programs] = 0
        array.phase[use.programs] = array.started[use.programs] = 0
        array.arrived[use.programs] = 0
        array.expected[use.programs] = _NO_TX

    def invalidate(self, use: MbarrierUse) -> None:
        """Invalidate all mbarriers of an array."""
        array = self._initialized(use)
        seen = array.waited[use.programs] <= self.memory.barriers[use.programs]
        self._check(seen, MbarrierMisuse.STILL_WAITED_FOR, use)
        self.memory.write_any(use.touch(self.memory, array.phase.shape[1]))
        array.initialized[use.programs] = 0

    def expect_tx(self, use: MbarrierUse, count: int) -> None:
        """Expect `count` bytes in the current phase."""
        array = self._fenced(use)
        free = array.expected[use.programs, use.stage] == _NO_TX
        self._check(free, MbarrierMisuse.PHASE_PENDING, use)
        array.expected[use.programs, use.stage] = count

    def start_load(self, use: MbarrierUse, touch: Touch, values: Array) -> None:
        """Start to load vectors."""
        array = self._fenced(use)
        self.memory.start_tma_load(touch)
        array.started[use.programs, use.stage] += touch.start.shape[1] * touch.size
        self.loads.append(_TmaLoad(use, touch, values))

    def arrive(self, use: MbarrierUse) -> None:
        """Arrive with all warps of each program, which completes a phase."""
        array = self._synchronized(use)
        self._record_wait(use, array)
        array.arrived[use.programs, use.stage] = self.memory.tick(use.op)
        array.phase[use.programs, use.stage] += 1

    def wait_for_loads(self, use: MbarrierUse, parity: Array) -> None:
        """Wait for the phase of this parity; park if its loads have not all been started."""
        array = self._synchronized(use)
        remaining = use.take_rows(array.phase[use.programs, use.stage] & 1 == parity)
        index = remaining.programs, remaining.stage
        started = array.expected[index] == array.started[index]
        if not started.all():
            raise ParkedError(MbarrierWait(self, use, parity))
        self._record_wait(use, array)
        self._complete(remaining, array)

    def wait_for_program(self, use: MbarrierUse, parity: Array) -> Array:
        """Wait, as a producer, for the program to arrive in the phase of this parity.

        Returns the record of that, by program. The phase before the first is complete.
        """
        array = self._synchronized(use)
        if (array.phase[use.programs, use.stage] & 1 == parity).any():
            raise ParkedError(MbarrierWait(self, use, parity))
        arrived: Array = array.arrived[use.programs, use.stage]
        return arrived

    def is_over(self, use: MbarrierUse, parity: Array) -> bool:
        """Return True if a wait can end: each phase is complete, or its loads have been started."""
        array = self.arrays[use.offset]
        index = use.programs, use.stage
        started = (array.expected[index] == array.started[index]) & (array.started[index] > 0)
        return bool(((array.phase[index] & 1 != parity) | started).all())

    def never_completes(self, use: MbarrierUse) -> MbarrierMisuseError:
        """Return the error of a wait that nothing can end any more."""
        return self._error(MbarrierMisuse.NEVER_COMPLETES, use, 0)

    def _synchronized(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; raise unless a barrier follows its initialization."""
        array = self._initialized(use)
        initialized = array.initialized[use.programs]
        self._check(
            initialized < self.memory.barriers[use.programs], MbarrierMisuse.UNSYNCHRONIZED, use
        )
        return array

    def _record_wait(self, use: MbarrierUse, array: _MbarrierArray) -> None:
        self.memory.read_any(use.touch(self.memory, array.phase.shape[1]))
        array.waited[use.programs] = self.memory.tick(use.op)

    def _complete(self, use: MbarrierUse, array: _MbarrierArray) -> None:
        """Complete the loads of a phase, and the phase."""
        index = use.programs, use.stage
        self._complete_loads(use)
        array.phase[index] += 1
        array.started[index] = 0
        array.expected[index] = _NO_TX

    def _complete_loads(self, use: MbarrierUse) -> None:
        stage = np.full(self.programs, -1)
        stage[use.programs] = use.stage
        remaining = []
        for load in self.loads:
            done = stage[load.use.programs] == load.use.stage
            if load.use.offset != use.offset or not done.any():
                remaining.append(load)
                continue
            completed = load.take_rows(done)
            values = completed.values
            words = self.memory.words(values.itemsize, values.shape[-1])
            self.memory.complete_tma_load(completed.touch, words, values)
            if not done.all():
                remaining.append(load.take_rows(~done))
        self.loads = remaining

    def _initialized(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; raise `MbarrierMisuseError` unless it is initialized."""
        array = self.arrays.setdefault(use.offset, _MbarrierArray.of(self.programs, 1))
        self._check(array.initialized[use.programs] > 0, MbarrierMisuse.NOT_INITIALIZED, use)
        return array

    def _fenced(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; also raise unless the first thread fenced it since."""
        array = self._initialized(use)
        fenced = self.memory.fences[use.programs, 0] > array.initialized[use.programs]
        self._check(fenced, MbarrierMisuse.UNFENCED, use)
        return array

    def _check(self, right: Array, misuse: MbarrierMisuse, use: MbarrierUse) -> None:
        """Raise `MbarrierMisuseError` for the first program where `right` is false."""
        if right.all():
            return
        raise self._error(misuse, use, int(right.argmin()))

    def _error(self, misuse: MbarrierMisuse, use: MbarrierUse, index: int) -> MbarrierMisuseError:
        """Return the error of a use in its program number `index`."""
        array = self.arrays[use.offset]
        program, stage = int(use.programs[index]), int(use.stage[index])
        expected = started = 0
        if array.initialized[program] > 0:
            expected = max(0, int(array.expected[program, stage]))
            started = int(array.started[program, stage])
        return MbarrierMisuseError(misuse, use.op, program, stage, expected, started)


@dataclass(frozen=True, eq=False)
class MbarrierWait:
    """The wait of a partition for a phase of this parity that another partition completes."""

    mbarriers: Mbarriers
    use: MbarrierUse
    parity: Array

    def over(self, memory: Memory) -> bool:
        """Return True if the wait can end."""
        return self.mbarriers.is_over(self.use, self.parity)

    def deadlock(self) -> MbarrierMisuseError:
        """Return the fault of a wait that never ends."""
        return self.mbarriers.never_completes(self.use)
