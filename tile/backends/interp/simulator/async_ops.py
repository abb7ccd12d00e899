"""Asynchronous operations of a chunk of programs that are in flight.

- cp.async copies, by thread and commit group (`InFlightCopies`).
- wgmmas, by thread: those that no `wgmma_wait` has completed yet (`InFlightWgmma`).
- TMA stores, by program, that still read (`InFlightStores`).

TMA loads complete on mbarriers (`mbarriers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.simulator.shared_memory import (
    Fault,
    SharedFaultError,
    SharedMemory,
    Touch,
)
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.values import Array, Rows


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
