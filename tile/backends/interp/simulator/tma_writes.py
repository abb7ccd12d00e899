"""Writes of TMA stores and reductions to global memory that may not be complete.

Two of one program that are in flight together are not ordered. So they must not write the same
element, unless both combine it by atomic operations. A `tma_store_wait` that only waits for reads
completes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.values import Array, Rows
from tile.backends.interp.virtual_memory import DetectedFaultError
from tile.ir.core import Operation


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
