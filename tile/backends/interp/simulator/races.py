"""Races on global memory among the threads of one program; detected on request.

At tile level a program executes its operations in order: it reads what it wrote, and overwrites
what it read. If different threads execute two such accesses, a barrier must separate them. Each
element of every array has a record of its last writer and one of its last reader, in the format of
`shared_memory.py`, where the thread is a row of the launch. Accesses of other programs are not
checked, as barriers do not order them, but they replace the record: some races are missed, and
every race reported is one. Atomic operations are not checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.resolved_access import Buffer
from tile.backends.interp.values import Array, Rows
from tile.backends.interp.virtual_memory import WINDOW_BITS, DetectedFaultError, Memory, lazy_zeros
from tile.ir.core import Operation


@dataclass(eq=False)
class GlobalRaceError(DetectedFaultError):
    """Two threads, each a row, accessed the element at `address`; `other_row` was the first."""

    row: int
    address: int
    other: Operation
    other_row: int
    op: Operation


@dataclass(frozen=True, eq=False)
class _Records:
    """Records of the last accesses to the elements of an array; 0 for none."""

    buffer: Buffer
    writer: Array
    reader: Array

    @classmethod
    def of(cls, buffer: Buffer) -> _Records:
        count = len(buffer.span) // buffer.array.itemsize
        return cls(buffer, lazy_zeros(count, np.int64), lazy_zeros(count, np.int64))


class GlobalRaces:
    """The records of all arrays of a launch of `programs`, of `threads` threads each."""

    def __init__(self, memory: Memory, programs: int, threads: int) -> None:
        self.memory = memory
        self.records: dict[int, _Records] = {}
        self.threads = threads
        self.bits = (programs * threads).bit_length()
        self.barriers = np.full(programs, 1 << self.bits, np.int64)  # before clock 1
        self.ops: list[Operation] = []  # by clock, from 1 on

    def barrier(self, programs: Rows) -> None:
        """Record a barrier of all threads of some programs."""
        self.barriers[programs] = len(self.ops) + 1 << self.bits

    def access(
        self, op: Operation, rows: Rows, address: Array, active: Array | None, size: int
    ) -> None:
        """Record and check accesses to addresses (row, register); a store has no results."""
        threads = np.broadcast_to(rows.reshape(-1, *(1,) * (address.ndim - 1)), address.shape)
        address, threads = (x.ravel() if active is None else x[active] for x in (address, threads))
        self.ops.append(op)
        windows = address >> WINDOW_BITS
        for window in np.unique(windows):
            records = self._records(int(window) << WINDOW_BITS)
            if records is not None and size % records.buffer.array.itemsize == 0:
                own = windows == window
                self._record_touch(op, records, address[own], threads[own], size)

    def _records(self, address: int) -> _Records | None:
        buffer = self.memory.buffer_at(address)
        if buffer is None:
            return None
        if id(buffer) not in self.records:
            self.records[id(buffer)] = _Records.of(buffer)
        return self.records[id(buffer)]

    def _record_touch(
        self, op: Operation, records: _Records, address: Array, threads: Rows, size: int
    ) -> None:
        itemsize = records.buffer.array.itemsize
        first = (address - records.buffer.start) // itemsize
        elements = (first[:, None] + np.arange(size // itemsize)).ravel()
        threads = np.repeat(threads, size // itemsize)
        inside = (elements >= 0) & (elements < len(records.writer))
        elements, threads = elements[inside], threads[inside]
        now = (len(self.ops) << self.bits) | threads
        self._check(records, records.writer, elements, threads)
        if op.results:
            records.reader[elements] = now
        else:
            self._check(records, records.reader, elements, threads)
            records.writer[elements] = now

    def _check(self, records: _Records, last: Array, elements: Array, threads: Rows) -> None:
        """Raise `GlobalRaceError` if another thread of the program accessed it since a barrier."""
        record = last[elements]
        other = record & (1 << self.bits) - 1
        program = threads // self.threads
        wrong = (record >= self.barriers[program]) & (other != threads)
        wrong &= other // self.threads == program
        if wrong.any():
            index = int(wrong.argmax())
            start, size = records.buffer.start, records.buffer.array.itemsize
            raise GlobalRaceError(
                int(threads[index]),
                start + int(elements[index]) * size,
                self.ops[(int(record[index]) >> self.bits) - 1],
                int(other[index]),
                self.ops[-1],
            )
