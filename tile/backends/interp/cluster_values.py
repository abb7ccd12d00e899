"""Numbers that the programs of a cluster give each other (`cluster_gather`).

Rows of a launch are programs, or threads of programs, of which those of one number exchange values.
A row sends its own, then waits for those of the others. It may send again before they have received
them, but not twice: so there are two of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.program_batch import LaunchContext, ParkedError, ProgramBatch
from tile.backends.interp.values import Array, Rows, RunValue, broadcast_rows
from tile.backends.interp.virtual_memory import DetectedFaultError, Memory
from tile.errors import ExecutionError
from tile.ir.core import Operation


@dataclass(eq=False)
class GatherWaitError(DetectedFaultError):
    """A wait for a program of the cluster that never comes to an operation, in this row."""

    op: Operation
    row: int


class Gather:
    """The values that one operation exchanges in a launch, whose programs have `threads` rows."""

    def __init__(self, launch: LaunchContext, op: Operation, threads: int) -> None:
        self.op = op
        self.size: int = op["size"]
        self.threads = threads
        if launch.grid[0] % self.size:
            raise ExecutionError(
                f"`{launch.name}` gathers numbers of {self.size} programs of a cluster, and its "
                f"grid {launch.grid} is no multiple along axis 0",
                loc=op.loc,
            )
        rows = launch.programs * threads
        self.sent = np.zeros(rows, np.int64)  # times, by row
        self.received = np.zeros(rows, np.int64)
        self.values: list[Array] = []  # of each operand: by parity of the times, and row

    def members(self, rows: Rows) -> Array:
        """Return the rows that exchange values with some, themselves included: (row, member)."""
        programs, thread = np.divmod(rows, self.threads)
        first = programs // self.size * self.size
        members: Array = (first[:, None] + np.arange(self.size)) * self.threads + thread[:, None]
        return members

    def send(self, rows: Rows, values: Sequence[Array]) -> None:
        """Keep the values of rows that have not sent them yet."""
        if not self.values:
            self.values = [np.zeros((2, len(self.sent)), value.dtype) for value in values]
        new = self.sent[rows] == self.received[rows]
        senders = rows[new]
        for buffer, value in zip(self.values, values, strict=True):
            buffer[self.sent[senders] & 1, senders] = value[new]
        self.sent[senders] += 1

    def receive(self, rows: Rows) -> list[Array]:
        """Return each value of all members, one after the other; park if some have not sent it."""
        wait = GatherWait(self, rows)
        if wait.missing().any():
            raise ParkedError(wait)
        members, parity = self.members(rows), self.received[rows] & 1
        self.received[rows] += 1
        return [buffer[parity, each] for buffer in self.values for each in members.T]


@dataclass(frozen=True, eq=False)
class GatherWait:
    """The wait of rows for the values of all programs of their clusters."""

    gather: Gather
    rows: Rows

    def missing(self) -> Array:
        """Return which rows have members that have not sent their values."""
        gather = self.gather
        least = gather.sent[gather.members(self.rows)].min(axis=1)
        return np.asarray(least <= gather.received[self.rows])

    def over(self, memory: Memory) -> bool:
        """Return True if the wait can end."""
        return not self.missing().any()

    def deadlock(self) -> GatherWaitError:
        """Return the fault of a wait that never ends."""
        return GatherWaitError(self.gather.op, int(self.rows[self.missing().argmax()]))


def gathered(
    op: Operation, batch: ProgramBatch, values: Sequence[RunValue], threads: int = 1
) -> tuple[Array, ...]:
    """Return the results of an operation for the programs of a batch, or for their threads."""
    launch = batch.launch
    gather = launch.gathers.get(op)
    if gather is None:
        gather = launch.gathers[op] = Gather(launch, op, threads)
    gather.send(batch.rows, [broadcast_rows(value, (), len(batch)) for value in values])
    return tuple(gather.receive(batch.rows))
