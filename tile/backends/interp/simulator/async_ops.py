"""Asynchronous operations of a chunk of programs that are in flight.

- cp.async copies, by thread and commit group (`InFlightCopies`).
- wgmmas, by thread: those that no `wgmma_wait` has completed yet (`InFlightWgmma`).
- mbarriers, and the TMA loads that complete on them (`Mbarriers`).

A TMA load completes as late as it may: at the wait on its mbarrier. Until then its destination is
flagged as in flight, so that an early read is detected. An mbarrier counts its phases, and a wait
names a phase by its parity, as `mbarrier.try_wait.parity` does. A wait for a phase that is over
returns at once; a wait for a phase that can never complete is an error.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.simulator.shared_memory import SharedMemory, Touch
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.values import Array, Rows
from tile.ir.core import Operation


@dataclass(frozen=True, eq=False)
class AsyncCopy:
    """The copies of one operation: vectors of values and the commit group's number, by thread.

    `thread` is the thread's number in the chunk; `values` has axes (thread, vector, element).
    """

    touch: Touch
    thread: Rows
    group: Array
    values: Array

    def take_rows(self, chosen: Array) -> AsyncCopy:
        """Return the copies of the `chosen` threads."""
        part = self.touch.of_rows(chosen)
        return AsyncCopy(part, self.thread[chosen], self.group[chosen], self.values[chosen])


class InFlightCopies:
    """The copies of a chunk that nobody has waited for yet, in the order of their start."""

    def __init__(self, memory: SharedMemory, threads: int) -> None:
        self.memory = memory
        self.committed = np.zeros(threads, np.int64)  # groups that each thread has committed
        self.pending: list[AsyncCopy] = []

    def begin(
        self, touch: Touch, thread_map: ThreadMap, values: Array, active: Array | None = None
    ) -> None:
        """Start to copy vectors, those of the threads that are `active` (None: all)."""
        thread = thread_map.numbers
        copy = AsyncCopy(touch, thread, self.committed[thread], values)
        if active is not None:
            copy = copy.take_rows(active)
        self.memory.start_copy(copy.touch)
        self.pending.append(copy)

    def commit(self, thread_map: ThreadMap) -> None:
        """Commit the copies of these threads since their last commit as one group."""
        self.committed[thread_map.numbers] += 1

    def wait(self, thread_map: ThreadMap, pending: int) -> None:
        """Complete the copies of all groups of these threads but the last `pending`."""
        finished = np.zeros(len(self.committed), np.int64)
        numbers = thread_map.numbers
        finished[numbers] = self.committed[numbers] - pending
        remaining = []
        for copy in self.pending:
            done = copy.group < finished[copy.thread]
            if done.all():
                self._finish(copy)
            elif done.any():
                self._finish(copy.take_rows(done))
                remaining.append(copy.take_rows(~done))
            else:
                remaining.append(copy)
        self.pending = remaining

    def _finish(self, copy: AsyncCopy) -> None:
        values = copy.values
        words = self.memory.words(values.itemsize, values.shape[-1])
        self.memory.put(copy.touch, words, values)


@dataclass(frozen=True, eq=False)
class WgmmaReads:
    """The shared-memory reads of one wgmma: vectors and the wgmma's sequence number, by thread.

    `thread` is the thread's number in the chunk. The vectors of a warpgroup's operand are divided
    among its threads.
    """

    touches: tuple[Touch, ...]
    thread: Rows
    number: Array

    def take_rows(self, chosen: Array) -> WgmmaReads:
        """Return the reads of the `chosen` threads."""
        touches = tuple(touch.of_rows(chosen) for touch in self.touches)
        return WgmmaReads(touches, self.thread[chosen], self.number[chosen])


class InFlightWgmma:
    """The wgmmas of a chunk that still read shared memory, in the order of their start."""

    def __init__(self, memory: SharedMemory, threads: int) -> None:
        self.memory = memory
        self.started = np.zeros(threads, np.int64)  # wgmmas that each thread has started
        self.pending: list[WgmmaReads] = []

    def start(self, thread_map: ThreadMap, *touches: Touch) -> None:
        """Start a wgmma that reads these vectors."""
        for touch in touches:
            self.memory.start_wgmma_reads(touch)
        thread = thread_map.numbers
        self.started[thread] += 1
        self.pending.append(WgmmaReads(touches, thread, self.started[thread]))

    def wait(self, thread_map: ThreadMap, pending: int) -> None:
        """Complete all wgmmas of these threads but the last `pending`."""
        finished = np.zeros(len(self.started), np.int64)
        numbers = thread_map.numbers
        finished[numbers] = self.started[numbers] - pending
        remaining, ended = [], []
        for reads in self.pending:
            done = reads.number <= finished[reads.thread]
            if done.any():
                ended.append(reads if done.all() else reads.take_rows(done))
            if not done.all():
                remaining.append(reads.take_rows(~done) if done.any() else reads)
        for reads in ended:
            for touch in reads.touches:
                self.memory.end_wgmma_reads(touch)
        for reads in remaining:
            for touch in reads.touches:
                self.memory.keep_wgmma_reads(touch)
        self.pending = remaining
        self.memory.reading = bool(remaining)


_BYTES, _VECTOR_BYTES = 8, 16  # size of an mbarrier, and of the vectors in which it is accessed
_NO_TX = -1  # expected bytes of a phase without expect_tx


class MbarrierMisuse(enum.Enum):
    """Kinds of wrong uses of an mbarrier."""

    NOT_INITIALIZED = enum.auto()
    ALREADY_INITIALIZED = enum.auto()  # initialized twice
    UNSYNCHRONIZED = enum.auto()  # initialized by another thread, with no `barrier` in between
    UNFENCED = enum.auto()  # initialized, with no proxy fence after
    STILL_WAITED_FOR = enum.auto()  # invalidated while other threads may wait
    PHASE_PENDING = enum.auto()  # expects more bytes before the last phase was waited for
    NEVER_COMPLETES = enum.auto()  # waited for, though the phase cannot complete


class MbarrierMisuseError(Exception):
    """A wrong use of an mbarrier by `op`, in the program with this number in the chunk."""

    def __init__(
        self,
        misuse: MbarrierMisuse,
        op: Operation,
        program: int,
        stage: int,
        expected: int,
        started: int,
    ) -> None:
        super().__init__(misuse.name)
        self.misuse = misuse
        self.op = op
        self.program = program
        self.stage = stage
        self.expected = max(0, expected)
        self.started = started


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

    @classmethod
    def of(cls, programs: int, stages: int) -> _MbarrierArray:
        initialized, waited = (np.zeros(programs, np.int64) for _ in range(2))
        phase, expected, started = (np.zeros((programs, stages), np.int64) for _ in range(3))
        return cls(initialized, waited, phase, expected, started)


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

    def wait(self, use: MbarrierUse, parity: Array) -> None:
        """Wait for the phase of this parity, for each program, to complete."""
        array = self._initialized(use)
        initialized = array.initialized[use.programs]
        self._check(
            initialized < self.memory.barriers[use.programs], MbarrierMisuse.UNSYNCHRONIZED, use
        )
        self.memory.read_any(use.touch(self.memory, array.phase.shape[1]))
        array.waited[use.programs] = self.memory.tick(use.op)
        remaining = use.take_rows(array.phase[use.programs, use.stage] & 1 == parity)
        index = remaining.programs, remaining.stage
        self._check(
            array.expected[index] == array.started[index], MbarrierMisuse.NEVER_COMPLETES, remaining
        )
        self._complete_loads(remaining)
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
        index = int(right.argmin())
        array = self.arrays[use.offset]
        program, stage = int(use.programs[index]), int(use.stage[index])
        initialized = array.initialized[program] > 0
        counts = [
            int(of[program, stage]) if initialized else 0 for of in (array.expected, array.started)
        ]
        raise MbarrierMisuseError(misuse, use.op, program, stage, counts[0], counts[1])
