"""wgmmas in flight, by thread: those that no `wgmma_wait` has completed yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.memory import SharedMemory, Touch
from tile.backends.interp.thread.place import ThreadMap
from tile.backends.interp.values import Array, Rows


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
