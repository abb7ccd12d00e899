"""A run of THREAD IR: translated code for a target, and chunks of programs.

`thread_code` checks that the target supports a module, and translates it. A `Chunk` is the state of
programs that start together: threads, shared memory and operations in flight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.bytecode import Code, Instruction
from tile.backends.interp.executor import Executor
from tile.backends.interp.launch import Launch, reordered_runs
from tile.backends.interp.program_batch import Frame, ProgramBatch, StepResult
from tile.backends.interp.simulator.async_ops import InFlightCopies, InFlightReads, TmaWrites
from tile.backends.interp.simulator.clusters import Clusters
from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.mbarriers import Mbarriers
from tile.backends.interp.simulator.races import GlobalRaces
from tile.backends.interp.simulator.shared_memory import SharedMemory
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.simulator.verify import check_supported, check_wgmma_registers
from tile.backends.interp.simulator.warpgroup_order import WarpgroupOrder
from tile.backends.interp.translate import Rules, translate
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, Rows
from tile.config import config
from tile.errors import OutOfResourcesError, stamp
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.target import SimtTarget

# Bytes of shared memory that share one record of accesses, unless accesses are smaller.
GRANULE = 16
# Operations that access vectors of a buffer; the buffer is their first operand.
VECTORS = (
    ops.thread.shared_load,
    ops.thread.shared_store,
    ops.thread.shared_atomic_inc,
    ops.thread.shared_ordered_inc,
    ops.thread.shared_cp_async,
)


@dataclass(frozen=True, eq=False)
class ThreadCode:
    """Code of a THREAD module, for programs of `num_warps` warps on a target.

    `num_ctas` programs form a cluster. Each program has `shared_bytes` of shared memory, with
    access records per `granule` bytes.
    """

    code: Code
    target: SimtTarget
    num_warps: int
    shared_bytes: int
    granule: int
    num_ctas: int = 1

    @property
    def threads(self) -> int:
        """Threads of a program."""
        return self.num_warps * self.target.warp_size

    @property
    def shared_cost(self) -> int:
        """Bytes that the simulator allocates for a program's shared memory and its records."""
        return max(1, self.shared_bytes * (1 + 2 * 8 // self.granule))


def thread_code(
    module: Module, target: SimtTarget, num_warps: int, rules: Rules, num_ctas: int = 1
) -> ThreadCode:
    """Translate a THREAD module to code.

    Raises `UnsupportedError` for an operation without a rule and for one that the target does not
    have; `PassError` for a buffer without an offset; `WgmmaInFlightError` for an accumulator used
    before its wait; `OutOfResourcesError` for more shared memory or threads than the target has.
    """
    shared = shared_bytes(module)
    _fits(target, shared, num_warps * target.warp_size)
    for op in module.walk():
        with stamp(op.loc):
            check_supported(op, target, num_warps)
    check_wgmma_registers(module)
    return ThreadCode(
        translate(module, rules), target, num_warps, shared, _granule(module), num_ctas
    )


def _fits(target: SimtTarget, shared: int, threads: int) -> None:
    for what, count, most in (
        ("bytes of shared memory", shared, target.shared_bytes),
        ("threads", threads, target.max_threads),
    ):
        if count > most:
            raise OutOfResourcesError(
                f"a program of target {target} has at most {most} {what}; this one takes {count}"
            )


def _granule(module: Module) -> int:
    """Return the largest power of two, up to `GRANULE` bytes, that divides all accesses."""
    sizes = [GRANULE]
    for op in module.walk():
        if op.defn is ops.shared.local_alloc:
            sizes.append(op["offset"])
        elif op.defn in VECTORS:
            mem = op.inputs[0].type
            sizes.append(mem.element.bytes_of(op.attributes.get("vector", 1)))
    return math.gcd(*sizes)


class Chunk:
    """Programs that start together: their threads, shared memory and operations in flight."""

    def __init__(self, launch: ThreadLaunch, programs: Rows) -> None:
        code = launch.threads_code
        self.first = int(programs[0]) * code.threads
        self.lanes = code.target.warp_size
        self.threads = code.threads
        self.memory = SharedMemory(len(programs), code.shared_bytes, code.granule, code.threads)
        self.wgmma = InFlightReads(self.memory, len(programs) * code.threads)
        self.copies = InFlightCopies(self.memory, len(programs) * code.threads)
        self.stores = InFlightReads(self.memory, len(programs))
        self.tma_writes = TmaWrites(len(programs))
        self.clusters = Clusters(self.memory, len(programs), launch.cluster)
        self.mbarriers = Mbarriers(self.memory, len(programs), code.num_warps)
        self.order = WarpgroupOrder(len(programs), code.num_warps)
        # The record up to which a producer partition has acquired the program's accesses, by
        # program. None for the program itself, whose threads synchronize by barriers.
        self.acquired: Array | None = None
        # The record of the last arrive of all warps for which the program itself has waited.
        self.released = np.zeros(len(programs), np.int64)
        # And that up to which it has acquired those of the other program of the cluster.
        self.acquired_of_peers = self.clusters.acquired
        self._rows: Rows | None = None
        self._thread_map: ThreadMap | None = None

    def partition(self) -> Chunk:
        """Return the same state as a producer partition sees it, which starts now."""
        producer = copy(self)
        producer.acquired = self.memory.barriers.copy()
        producer.acquired_of_peers = self.clusters.acquired.copy()
        return producer

    def horizon(self, programs: Rows) -> Array:
        """Return the record before which accesses of other threads precede this point."""
        if self.acquired is None:
            return np.maximum(self.memory.barriers[programs], self.released[programs])
        return self.acquired[programs]

    def wait_for_arrive(self, programs: Rows, own: Array, of_peers: Array) -> None:
        """Pass a wait for an arrive of all warps, and of those of the peers; these are records."""
        seen = self.released if self.acquired is None else self.acquired
        seen[programs] = np.maximum(seen[programs], own)
        seen = self.acquired_of_peers
        seen[programs] = np.maximum(seen[programs], of_peers)

    def thread_map(self, rows: Rows) -> ThreadMap:
        """Return the threads of some rows; the last answer is cached, as batches ask repeatedly."""
        if rows is not self._rows or self._thread_map is None:
            self._rows = rows
            self._thread_map = ThreadMap.of(rows, self.first, self.lanes, self.threads)
        return self._thread_map


class ThreadExecutor(Executor):
    """The executor of batches of threads."""

    def return_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        if len(batch.frames) == 1:
            chunk = chunk_of(batch)
            programs = chunk.thread_map(batch.rows).programs
            chunk.stores.end(programs)
            chunk.order.end(programs)
            chunk.mbarriers.end(programs, chunk.clusters)
        return super().return_(batch, frame, instruction)


class ThreadLaunch(Launch):
    """A run of a kernel whose rows are threads."""

    executor = ThreadExecutor

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
        self.cluster = code.num_ctas if grid[0] % code.num_ctas == 0 else 1
        self.counters = counters
        self.races = (
            GlobalRaces(self.memory, self.programs, self.threads) if config.interp_races else None
        )

    def chunks(self) -> Iterator[ProgramBatch]:
        """Yield the programs of the grid in batches of whole programs, in the configured order."""
        code = self.threads_code
        rows = min(TUNING.chunk_programs, config.chunk_bytes // code.code.largest_value)
        size = min(rows // self.threads, TUNING.chunk_shared_bytes // code.shared_cost)
        size, clusters = max(1, size // self.cluster), self.programs // self.cluster
        order = config.interp_order
        runs = (
            np.split(np.arange(clusters), range(size, clusters, size))
            if order is None
            else reordered_runs(clusters, size, order)
        )
        for run in runs:
            programs = (run[:, None] * self.cluster + np.arange(self.cluster)).ravel()
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


def launch_of(batch: ProgramBatch) -> ThreadLaunch:
    """Return the run that a batch belongs to."""
    assert isinstance(batch.launch, ThreadLaunch)
    return batch.launch


def chunk_of(batch: ProgramBatch) -> Chunk:
    """Return the chunk of a batch: the state that its programs share."""
    assert isinstance(batch.chunk, Chunk)
    return batch.chunk


def thread_map_of(batch: ProgramBatch) -> ThreadMap:
    """Return the threads of a batch, by row."""
    return chunk_of(batch).thread_map(batch.rows)
