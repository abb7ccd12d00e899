"""Clusters of programs: their barrier, and what each has seen of the other programs' work.

Consecutive programs along axis 0 of the grid form a cluster. A program that has waited at the
cluster's barrier has seen what the others did before they arrived. That is a record of the clock of
`SharedMemory`, as for barriers of a program's threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.program_batch import ParkedError
from tile.backends.interp.simulator.shared_memory import SharedMemory
from tile.backends.interp.values import Array, Rows
from tile.backends.interp.virtual_memory import DetectedFaultError, Memory
from tile.ir.core import Operation


@dataclass(eq=False)
class ClusterWaitError(DetectedFaultError):
    """A wait for a program of the cluster that never arrives, in the program with this number."""

    op: Operation
    program: int


class Clusters:
    """The clusters of a chunk, of `size` programs each; the chunk has whole clusters."""

    def __init__(self, memory: SharedMemory, programs: int, size: int) -> None:
        self.memory = memory
        self.size = size
        self.arrived = np.zeros(programs, np.int64)  # times, by program
        # The record of the last arrive, and that of the one before: nobody is ahead by more. And
        # the same of the last one that was not relaxed.
        self.records = np.zeros((programs, 2), np.int64)
        self.released = np.full((programs, 2), 1 << memory.bits, np.int64)
        # The records before which a program has seen what all others of its cluster initialized,
        # and all that they did.
        self.seen = np.zeros(programs, np.int64)
        self.acquired = np.full(programs, 1 << memory.bits, np.int64)

    def members(self, programs: Rows) -> Rows:
        """Return all programs of the clusters of some: (program, member)."""
        first = programs // self.size * self.size
        return np.asarray(first[:, None] + np.arange(self.size))

    def peers(self, programs: Rows) -> Rows:
        """Return the other programs of clusters of two."""
        return programs ^ 1

    def arrive(self, op: Operation, programs: Rows) -> None:
        """Arrive at the barrier."""
        now, at = self.memory.tick(op), self.arrived[programs] & 1
        self.records[programs, at] = now
        self.released[programs, at] = self.released[programs, 1 - at] if op["relaxed"] else now
        self.arrived[programs] += 1

    def wait(self, op: Operation, programs: Rows) -> None:
        """Wait until all programs of the clusters have arrived as often; park if they have not."""
        wait = ClusterWait(self, op, programs)
        if not wait.all_arrived():
            raise ParkedError(wait)
        latest = self.arrived[programs] - 1 & 1
        at = self.members(programs), latest[:, None]
        self.seen[programs] = self.records[at].min(axis=1)
        self.acquired[programs] = self.released[at].min(axis=1)


@dataclass(frozen=True, eq=False)
class ClusterWait:
    """The wait of programs at the barriers of their clusters."""

    clusters: Clusters
    op: Operation
    programs: Rows

    def all_arrived(self) -> bool:
        """Return True if all programs of their clusters have arrived."""
        return not self._missing().any()

    def _missing(self) -> Array:
        arrived = self.clusters.arrived
        members = arrived[self.clusters.members(self.programs)]
        return np.asarray(members.min(axis=1) < arrived[self.programs])

    def over(self, memory: Memory) -> bool:
        """Return True if the wait can end."""
        return self.all_arrived()

    def deadlock(self) -> ClusterWaitError:
        """Return the fault of a wait that never ends."""
        return ClusterWaitError(self.op, int(self.programs[self._missing().argmax()]))
