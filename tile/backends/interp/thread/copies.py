"""Asynchronous copies (cp.async) in flight, by thread and commit group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.memory import SharedMemory, Touch
from tile.backends.interp.thread.place import ThreadMap
from tile.backends.interp.values import Array, Rows


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
