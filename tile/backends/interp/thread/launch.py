"""A run of THREAD IR, and the state that the programs of a chunk share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.launch import MAX_CHUNK, Launch, reordered_runs
from tile.backends.interp.thread.barriers import Mbarriers
from tile.backends.interp.thread.code import ThreadCode
from tile.backends.interp.thread.copies import InFlightCopies
from tile.backends.interp.thread.counters import Counters
from tile.backends.interp.thread.memory import SharedMemory
from tile.backends.interp.thread.pending import InFlightWgmma
from tile.backends.interp.thread.place import ThreadMap
from tile.backends.interp.thread.races import GlobalRaces
from tile.backends.interp.values import Rows
from tile.backends.interp.wave import Wave
from tile.config import config

# Limit of the shared memory of all programs of a chunk, with its records, in bytes.
MAX_SHARED = 1 << 26


class Chunk:
    """Programs that start together: their threads, shared memory and operations in flight."""

    def __init__(self, launch: ThreadLaunch, programs: Rows) -> None:
        code = launch.threads_code
        self.first = int(programs[0]) * code.threads
        self.lanes = code.target.warp_size
        self.threads = code.threads
        self.memory = SharedMemory(len(programs), code.shared_bytes, code.granule, code.threads)
        self.wgmma = InFlightWgmma(self.memory, len(programs) * code.threads)
        self.copies = InFlightCopies(self.memory, len(programs) * code.threads)
        self.mbarriers = Mbarriers(self.memory, len(programs))
        self._rows: Rows | None = None
        self._thread_map: ThreadMap | None = None

    def thread_map(self, rows: Rows) -> ThreadMap:
        """Return the threads of some rows; the last answer is cached, as batches ask repeatedly."""
        if rows is not self._rows or self._thread_map is None:
            self._rows = rows
            self._thread_map = ThreadMap.of(rows, self.first, self.lanes, self.threads)
        return self._thread_map


class ThreadLaunch(Launch):
    """A run of a kernel whose rows are threads."""

    def __init__(
        self,
        code: ThreadCode,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        counters: Counters | None = None,
    ) -> None:
        super().__init__(code.code, grid, arguments)
        self.threads_code = code
        self.threads = code.threads
        self.counters = counters
        self.races = (
            GlobalRaces(self.memory, self.programs, self.threads) if config.interp_races else None
        )

    def chunks(self) -> Iterator[Wave]:
        """Yield the programs of the grid in batches of whole programs, in the configured order."""
        code = self.threads_code
        rows = min(MAX_CHUNK, config.chunk_bytes // code.code.largest_value)
        size = max(1, min(rows // self.threads, MAX_SHARED // code.shared_cost))
        order = config.interp_order
        runs = (
            np.split(np.arange(self.programs), range(size, self.programs, size))
            if order is None
            else reordered_runs(self.programs, size, order)
        )
        for programs in runs:
            start, end = int(programs[0]) * self.threads, (int(programs[-1]) + 1) * self.threads
            batch = self.start(np.arange(start, end))
            batch.chunk = Chunk(self, programs)
            yield batch

    def programs_of(self, rows: Rows) -> Rows:
        """Return the number of each row's program."""
        return rows >> (self.threads.bit_length() - 1)

    def program(self, row: int) -> str:
        """Describe the program and the thread of a row."""
        where = super().program(row // self.threads)
        return f"{where}, {self.thread(row % self.threads)}"

    def thread(self, thread: int) -> str:
        """Describe a thread of a program."""
        warp, lane = divmod(thread, self.threads_code.target.warp_size)
        return f"thread {thread} (warp {warp}, lane {lane})"

    def element(self, index: tuple[int, ...], row: int) -> str:
        """Describe a register of a fragment, with its program and thread."""
        where = f"register {index[0]}, in " if index else "in "
        return where + self.program(row)


def launch_of(batch: Wave) -> ThreadLaunch:
    """Return the run that a batch belongs to."""
    assert isinstance(batch.launch, ThreadLaunch)
    return batch.launch


def chunk_of(batch: Wave) -> Chunk:
    """Return the chunk of a batch: the state that its programs share."""
    assert isinstance(batch.chunk, Chunk)
    return batch.chunk


def thread_map_of(batch: Wave) -> ThreadMap:
    """Return the threads of a batch, by row."""
    return chunk_of(batch).thread_map(batch.rows)
