"""Asynchronous operations of a chunk of programs that are in flight.

- cp.async copies, by thread and commit group (`InFlightCopies`).
- wgmmas, by thread, that no `wgmma_wait` has completed yet, and TMA stores, by program, that still
  read (`InFlightReads`).
- Writes of TMA stores and reductions to global memory that may not be complete (`TmaWrites`).

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
from tile.backends.interp.virtual_memory import DetectedFaultError
from tile.ir.core import Operation


@dataclass(frozen=True, eq=False)
class PendingOperation:
    """An operation in flight: the shared memory that it writes or reads, by owner.

    `owner` is the number in the chunk of a thread, or of the program of a TMA store. `number` is
    the commit group of a copy or store, or the wgmma's sequence number. `values` are what a copy
    writes, with axes (thread, vector, element). The vectors of a warpgroup's operand are divided
    among its threads.
    """

    touches: tuple[Touch, ...]
    owner: Rows
    number: Array
    values: Array | None = None

    def take_rows(self, chosen: Array) -> PendingOperation:
        """Return the part that belongs to the `chosen` owners."""
        touches = tuple(touch.of_rows(chosen) for touch in self.touches)
        values = None if self.values is None else self.values[chosen]
        return PendingOperation(touches, self.owner[chosen], self.number[chosen], values)


class InFlight:
    """The operations of a chunk that nobody has waited for yet, in the order of their start."""

    def __init__(self, memory: SharedMemory, owners: int) -> None:
        self.memory = memory
        self.counts = np.zeros(owners, np.int64)  # commit groups, or wgmmas, of each owner
        self.pending: list[PendingOperation] = []

    def complete(self, owners: Rows, pending: int) -> Iterator[PendingOperation]:
        """Remove and yield the operations of these owners, except the last `pending` numbers."""
        finished = np.zeros(len(self.counts), np.int64)
        finished[owners] = self.counts[owners] - pending
        operations, self.pending = self.pending, []
        for operation in operations:
            done = operation.number < finished[operation.owner]
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
        for copy in self.complete(thread_map.numbers, pending):
            assert copy.values is not None
            words = self.memory.words(copy.values.itemsize, copy.values.shape[-1])
            self.memory.put(copy.touches[0], words, copy.values)


class InFlightReads(InFlight):
    """The wgmmas, or the TMA stores, of a chunk that still read shared memory."""

    def start(self, owners: Rows, *touches: Touch) -> None:
        """Start an operation of these owners, one in each row, that reads these vectors."""
        for touch in touches:
            self.memory.start_async_reads(touch)
        self.pending.append(PendingOperation(touches, owners, self.counts[owners]))
        self.counts[owners] += 1

    def wait(self, owners: Rows, pending: int) -> None:
        """Complete the reads of these owners, except their last `pending` numbers."""
        for reads in self.complete(owners, pending):
            for touch in reads.touches:
                self.memory.read_any(touch)
        for reads in self.pending:
            for touch in reads.touches:
                self.memory.keep_async_reads(touch)

    def end(self, programs: Rows) -> None:
        """Raise `SharedFaultError` for a store of programs that end, if it still reads."""
        for reads in self.pending:
            ended = np.flatnonzero(np.isin(reads.owner, programs))
            if len(ended):
                (touch,) = reads.touches
                program, start = int(reads.owner[ended[0]]), int(touch.start[ended[0], 0])
                at, fault = start % self.memory.size, Fault.STORE_AT_END
                raise SharedFaultError(fault, touch.op, program, 0, at, 0)


@dataclass(frozen=True, eq=False)
class TmaWrite:
    """A store or reduction of a program: its commit group, and the addresses that it writes."""

    op: Operation
    number: int
    addresses: Array
    atomic: bool

    def overlap(self, other: TmaWrite) -> int | None:
        """Return an address that both write, not both atomically; None if there is none."""
        if self.atomic and other.atomic:
            return None
        if self.addresses[-1] < other.addresses[0] or other.addresses[-1] < self.addresses[0]:
            return None
        common = np.intersect1d(self.addresses, other.addresses, assume_unique=True)
        return int(common[0]) if len(common) else None


@dataclass(eq=False)
class TmaWriteOrderError(DetectedFaultError):
    """A write to an address that an earlier one of the same program may still write."""

    op: Operation
    other: Operation
    program: int
    address: int


class TmaWrites:
    """The writes of a chunk of programs that may not be complete."""

    def __init__(self, programs: int) -> None:
        self.counts = [0] * programs
        self.pending: list[list[TmaWrite]] = [[] for _ in range(programs)]

    def start(
        self, op: Operation, programs: Rows, address: Array, inside: Array, *, atomic: bool
    ) -> None:
        """Start a write of elements (program, element); raise if an earlier one may follow it."""
        for program, addresses, within in zip(programs, address, inside, strict=True):
            write = TmaWrite(op, self.counts[program], np.sort(addresses[within]), atomic)
            self.counts[program] += 1
            if not len(write.addresses):
                continue
            for other in self.pending[program]:
                common = write.overlap(other)
                if common is not None:
                    raise TmaWriteOrderError(op, other.op, int(program), common)
            self.pending[program].append(write)

    def complete(self, programs: Rows, pending: int) -> None:
        """Complete all writes of some programs but the last `pending`."""
        for program in programs:
            self.pending[program] = list(self._younger(program, pending))

    def _younger(self, program: int, pending: int) -> Iterator[TmaWrite]:
        first = self.counts[program] - pending
        return (write for write in self.pending[program] if write.number >= first)
