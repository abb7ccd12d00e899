"""Products of groups of warps that nobody has waited for yet, by thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.memory import SharedMemory, Touch
from tile.backends.interp.thread.place import ThreadMap
from tile.backends.interp.values import Array, Rows


@dataclass(frozen=True, eq=False)
class WgmmaReads:
    """What one operation reads: for each thread some vectors, and its product's number.

    `thread` is the thread's number in the chunk. The vectors of a group's factor are shared out
    among its threads.
    """

    touches: tuple[Touch, ...]
    thread: Rows
    number: Array

    def take_rows(self, chosen: Array) -> WgmmaReads:
        """The product of some threads."""
        touches = tuple(touch.of_rows(chosen) for touch in self.touches)
        return WgmmaReads(touches, self.thread[chosen], self.number[chosen])


class InFlightWgmma:
    """The products of a chunk that still read, in the order of their beginning."""

    def __init__(self, memory: SharedMemory, threads: int) -> None:
        self.memory = memory
        self.begun = np.zeros(threads, np.int64)  # by each thread
        self.pending: list[WgmmaReads] = []

    def start(self, thread_map: ThreadMap, *touches: Touch) -> None:
        """Begin to read vectors."""
        for touch in touches:
            self.memory.start_wgmma_reads(touch)
        thread = thread_map.numbers
        self.begun[thread] += 1
        self.pending.append(WgmmaReads(touches, thread, self.begun[thread]))

    def wait(self, thread_map: ThreadMap, pending: int) -> None:
        """Finish all products of these threads but the last `pending`."""
        finished = np.zeros(len(self.begun), np.int64)
        numbers = thread_map.numbers
        finished[numbers] = self.begun[numbers] - pending
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
