"""mbarriers, and the TMA loads that complete on them.

A TMA load completes as late as it may: at the wait on its mbarrier. Until then its destination is
flagged as in flight, so that an early read is detected. An mbarrier counts its phases, and a wait
names a phase by its parity, as `mbarrier.try_wait.parity` does. A wait for a phase that is over
returns at once; a wait for a phase that can never complete is an error.

The other program of a cluster of two, the *peer*, may arrive on an mbarrier, and load to its
program's shared memory. It has waited at the cluster's barrier then since the mbarrier was
initialized, and the program waits there before it invalidates the mbarrier, or ends.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.program_batch import ParkedError
from tile.backends.interp.simulator.clusters import Clusters
from tile.backends.interp.simulator.shared_memory import SharedMemory, Touch
from tile.backends.interp.values import Array, Rows
from tile.backends.interp.virtual_memory import DetectedFaultError, Memory
from tile.errors import MbarrierError, RaceError
from tile.ir.core import Operation

_BYTES, _VECTOR_BYTES = 8, 16  # size of an mbarrier, and of the vectors in which it is accessed
_NO_TX = -1  # expected bytes of a phase without expect_tx


class MbarrierMisuse(enum.Enum):
    """Kinds of wrong uses of an mbarrier: the error, and what the kernel does wrong."""

    NOT_INITIALIZED = MbarrierError, "uses an mbarrier that mbarrier_init has not initialized"
    ALREADY_INITIALIZED = (
        MbarrierError,
        "initializes an mbarrier again, with no mbarrier_inval before",
    )
    UNSYNCHRONIZED = (
        RaceError,
        "uses an mbarrier that another thread initialized, with no `barrier` in between",
    )
    UNFENCED = RaceError, "uses an mbarrier with no fence_proxy_async since its initialization"
    STILL_WAITED_FOR = (
        RaceError,
        "invalidates an mbarrier on which other threads may still wait",
    )
    PHASE_PENDING = (
        MbarrierError,
        "expects bytes on an mbarrier whose current phase has not been waited for",
    )
    PEER_UNSYNCHRONIZED = (
        RaceError,
        "uses an mbarrier of the other program of its cluster, which may not have initialized it, "
        "with no cluster_arrive there and cluster_wait here in between",
    )
    PEER_ENDS = (
        RaceError,
        "uses an mbarrier of the other program of its cluster, which may have invalidated it, or "
        "ended, with no cluster_arrive here and cluster_wait there in between",
    )
    NEVER_COMPLETES = (
        MbarrierError,
        "waits on an mbarrier whose phase never completes: not all expected bytes arrive, or none",
    )


@dataclass(eq=False)
class MbarrierMisuseError(DetectedFaultError):
    """A wrong use of an mbarrier by `op`, in the program with this number in the chunk."""

    misuse: MbarrierMisuse
    op: Operation
    program: int
    stage: int
    expected: int
    started: int


@dataclass(frozen=True, eq=False)
class MbarrierUse:
    """A use of an array of mbarriers by an operation, in some programs.

    `offset` is that of the array in shared memory, in bytes; `stage` is the index of the mbarrier,
    for each program.
    """

    op: Operation
    offset: int
    programs: Rows
    stage: Array

    def touch(self, memory: SharedMemory, stages: int) -> Touch:
        """Return an access to the whole array by the first thread of each program."""
        count = -(-stages * _BYTES // _VECTOR_BYTES)
        begin = self.offset + self.programs * memory.size
        start = begin[:, None] + np.arange(count) * _VECTOR_BYTES
        first = np.zeros((len(self.programs), 1), np.int64)
        barrier = memory.barriers[self.programs][:, None]
        return Touch(self.op, start, _VECTOR_BYTES, first, barrier)

    def take_rows(self, chosen: Array) -> MbarrierUse:
        """Return the use in some of the programs."""
        return MbarrierUse(self.op, self.offset, self.programs[chosen], self.stage[chosen])


class _MbarrierArray:
    """The mbarriers of a buffer in all programs: arrays (program), and (program, stage).

    initialized, waited: records as of shared memory; 0 means never.
    warps: that have arrived in the current phase; `count` complete it.
    arrived, arrived_by_peer: the records of the last arrive of the program, and of its peer.
    peer_uses: the peer's last use, and its record, by program.
    """

    def __init__(self, programs: int, stages: int, count: int) -> None:
        self.count = count
        self.initialized, self.waited = np.zeros((2, programs), np.int64)
        each = np.zeros((6, programs, stages), np.int64)
        self.phase, self.expected, self.started, self.warps = each[:4]
        self.arrived, self.arrived_by_peer = each[4:]
        self.peer_uses: dict[int, tuple[int, MbarrierUse]] = {}


@dataclass(frozen=True, eq=False)
class _TmaLoad:
    """The vectors of a load in flight, a program in each row: axes (program, vector, ...)."""

    use: MbarrierUse
    touch: Touch
    values: Array

    def take_rows(self, chosen: Array) -> _TmaLoad:
        """Return the load in some of the programs."""
        return _TmaLoad(self.use.take_rows(chosen), self.touch.of_rows(chosen), self.values[chosen])


class Mbarriers:
    """The mbarriers of a chunk, and the TMA loads in flight."""

    def __init__(self, memory: SharedMemory, programs: int, warps: int) -> None:
        self.memory = memory
        self.programs = programs
        self.warps = warps  # of a program
        self.arrays: dict[int, _MbarrierArray] = {}
        self.loads: list[_TmaLoad] = []

    def init(self, use: MbarrierUse, stages: int, count: int) -> None:
        """Initialize all mbarriers of an array; `count` warps complete a phase."""
        array = self.arrays.setdefault(use.offset, _MbarrierArray(self.programs, stages, count))
        self._check(array.initialized[use.programs] == 0, MbarrierMisuse.ALREADY_INITIALIZED, use)
        if (array.phase.shape[1], array.count) != (stages, count):
            array = self.arrays[use.offset] = _MbarrierArray(self.programs, stages, count)
        self.memory.write_any(use.touch(self.memory, stages))
        array.initialized[use.programs] = self.memory.tick(use.op)
        array.waited[use.programs] = 0
        array.phase[use.programs] = array.started[use.programs] = 0
        array.arrived[use.programs] = array.arrived_by_peer[use.programs] = 0
        array.warps[use.programs] = 0
        array.expected[use.programs] = _NO_TX

    def invalidate(self, use: MbarrierUse, clusters: Clusters) -> None:
        """Invalidate all mbarriers of an array."""
        array = self._initialized(use)
        self._check_peer_uses(use.programs, array, clusters)
        seen = array.waited[use.programs] <= self.memory.barriers[use.programs]
        self._check(seen, MbarrierMisuse.STILL_WAITED_FOR, use)
        self.memory.write_any(use.touch(self.memory, array.phase.shape[1]))
        array.initialized[use.programs] = 0

    def expect_tx(self, use: MbarrierUse, count: int) -> None:
        """Expect `count` bytes in the current phase."""
        array = self._fenced(use)
        free = array.expected[use.programs, use.stage] == _NO_TX
        self._check(free, MbarrierMisuse.PHASE_PENDING, use)
        array.expected[use.programs, use.stage] = count

    def start_load(self, use: MbarrierUse, touch: Touch, values: Array) -> None:
        """Start to load vectors."""
        array = self._fenced(use)
        self.memory.start_tma_load(touch)
        array.started[use.programs, use.stage] += touch.start.shape[1] * touch.size
        self.loads.append(_TmaLoad(use, touch, values))

    def start_load_at_peers(
        self, use: MbarrierUse, touch: Touch, values: Array, clusters: Clusters
    ) -> None:
        """Start to load vectors to the other programs of clusters, on whose mbarriers it arrives.

        use: of the programs that load.
        """
        array, there = self._at_peers(use, clusters)
        self.memory.start_tma_load(touch)
        array.started[there.programs, there.stage] += touch.start.shape[1] * touch.size
        self.loads.append(_TmaLoad(there, touch, values))

    def arrive(self, use: MbarrierUse) -> None:
        """Arrive with all warps of each program."""
        array = self._synchronized(use)
        self._record_wait(use, array)
        array.arrived[use.programs, use.stage] = self.memory.tick(use.op)
        self._count_warps(use, array)

    def arrive_at_peers(self, use: MbarrierUse, clusters: Clusters) -> None:
        """Arrive with all warps of each program on the mbarrier of the other one of its cluster."""
        array, there = self._at_peers(use, clusters)
        array.arrived_by_peer[there.programs, there.stage] = self.memory.tick(use.op)
        self._count_warps(there, array)

    def end(self, programs: Rows, clusters: Clusters) -> None:
        """Raise `MbarrierMisuseError` if the peers of programs that end may still use mbarriers."""
        for array in self.arrays.values():
            self._check_peer_uses(programs, array, clusters)

    def _count_warps(self, use: MbarrierUse, array: _MbarrierArray) -> None:
        """Count that all warps of a program arrive, which may complete a phase."""
        index = use.programs, use.stage
        array.warps[index] += self.warps
        complete = array.warps[index] >= array.count
        array.phase[index] += complete
        array.warps[index] -= complete * array.count

    def _at_peers(self, use: MbarrierUse, clusters: Clusters) -> tuple[_MbarrierArray, MbarrierUse]:
        """Return the array of a use of other programs of clusters, and that use; check it."""
        array = self._initialized(use)
        peers = clusters.peers(use.programs)
        initialized = array.initialized[peers]
        self._check(initialized > 0, MbarrierMisuse.PEER_ENDS, use)
        seen = initialized < clusters.seen[use.programs]
        self._check(seen, MbarrierMisuse.PEER_UNSYNCHRONIZED, use)
        now = self.memory.tick(use.op)
        array.peer_uses.update({int(peer): (now, use) for peer in peers})
        return array, MbarrierUse(use.op, use.offset, peers, use.stage)

    def _check_peer_uses(self, programs: Rows, array: _MbarrierArray, clusters: Clusters) -> None:
        """Raise if other programs may still use mbarriers of `programs`."""
        for program in programs:
            record, use = array.peer_uses.get(int(program), (0, None))
            if use is not None and record >= clusters.acquired[program]:
                at = int((clusters.peers(use.programs) == program).argmax())
                raise self._error(MbarrierMisuse.PEER_ENDS, use, at)

    def wait_for_loads(self, use: MbarrierUse, parity: Array) -> None:
        """Wait for the phase of this parity; park if its loads have not all been started."""
        array = self._synchronized(use)
        remaining = use.take_rows(array.phase[use.programs, use.stage] & 1 == parity)
        index = remaining.programs, remaining.stage
        started = array.expected[index] == array.started[index]
        if not started.all():
            raise ParkedError(MbarrierWait(self, use, parity))
        self._record_wait(use, array)
        self._complete(remaining, array)

    def wait_for_program(
        self, use: MbarrierUse, parity: Array, *, own: bool
    ) -> tuple[Array, Array]:
        """Wait for all warps of the program to arrive in the phase of this parity.

        A producer waits, or their `own` threads, which have to wait before mbarriers end. Returns
        the records of the arrive, and of that of the other program of the cluster, by program. The
        phase before the first is complete.
        """
        array = self._synchronized(use)
        if own:
            self._record_wait(use, array)
        if (array.phase[use.programs, use.stage] & 1 == parity).any():
            raise ParkedError(MbarrierWait(self, use, parity))
        index = use.programs, use.stage
        return array.arrived[index], array.arrived_by_peer[index]

    def is_over(self, use: MbarrierUse, parity: Array) -> bool:
        """Return True if a wait can end: each phase is complete, or its loads have been started."""
        array = self.arrays[use.offset]
        index = use.programs, use.stage
        started = (array.expected[index] == array.started[index]) & (array.started[index] > 0)
        return bool(((array.phase[index] & 1 != parity) | started).all())

    def never_completes(self, use: MbarrierUse) -> MbarrierMisuseError:
        """Return the error of a wait that nothing can end any more."""
        return self._error(MbarrierMisuse.NEVER_COMPLETES, use, 0)

    def _synchronized(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; raise unless a barrier follows its initialization."""
        array = self._initialized(use)
        initialized = array.initialized[use.programs]
        self._check(
            initialized < self.memory.barriers[use.programs], MbarrierMisuse.UNSYNCHRONIZED, use
        )
        return array

    def _record_wait(self, use: MbarrierUse, array: _MbarrierArray) -> None:
        self.memory.read_any(use.touch(self.memory, array.phase.shape[1]))
        array.waited[use.programs] = self.memory.tick(use.op)

    def _complete(self, use: MbarrierUse, array: _MbarrierArray) -> None:
        """Complete the loads of a phase, and the phase."""
        index = use.programs, use.stage
        self._complete_loads(use)
        array.phase[index] += 1
        array.started[index] = 0
        array.expected[index] = _NO_TX

    def _complete_loads(self, use: MbarrierUse) -> None:
        stage = np.full(self.programs, -1)
        stage[use.programs] = use.stage
        remaining = []
        for load in self.loads:
            done = stage[load.use.programs] == load.use.stage
            if load.use.offset != use.offset or not done.any():
                remaining.append(load)
                continue
            completed = load.take_rows(done)
            values = completed.values
            words = self.memory.words(values.itemsize, values.shape[-1])
            self.memory.complete_tma_load(completed.touch, words, values)
            if not done.all():
                remaining.append(load.take_rows(~done))
        self.loads = remaining

    def _initialized(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; raise `MbarrierMisuseError` unless it is initialized."""
        array = self.arrays.setdefault(use.offset, _MbarrierArray(self.programs, 1, 1))
        self._check(array.initialized[use.programs] > 0, MbarrierMisuse.NOT_INITIALIZED, use)
        return array

    def _fenced(self, use: MbarrierUse) -> _MbarrierArray:
        """Return the array of a use; also raise unless the first thread fenced it since."""
        array = self._initialized(use)
        fenced = self.memory.fences[use.programs, 0] > array.initialized[use.programs]
        self._check(fenced, MbarrierMisuse.UNFENCED, use)
        return array

    def _check(self, right: Array, misuse: MbarrierMisuse, use: MbarrierUse) -> None:
        """Raise `MbarrierMisuseError` for the first program where `right` is false."""
        if right.all():
            return
        raise self._error(misuse, use, int(right.argmin()))

    def _error(self, misuse: MbarrierMisuse, use: MbarrierUse, index: int) -> MbarrierMisuseError:
        """Return the error of a use in its program number `index`."""
        array = self.arrays[use.offset]
        program, stage = int(use.programs[index]), int(use.stage[index])
        expected = started = 0
        if array.initialized[program] > 0:
            expected = max(0, int(array.expected[program, stage]))
            started = int(array.started[program, stage])
        return MbarrierMisuseError(misuse, use.op, program, stage, expected, started)


@dataclass(frozen=True, eq=False)
class MbarrierWait:
    """The wait of a partition for a phase of this parity that another partition completes."""

    mbarriers: Mbarriers
    use: MbarrierUse
    parity: Array

    def over(self, memory: Memory) -> bool:
        """Return True if the wait can end."""
        return self.mbarriers.is_over(self.use, self.parity)

    def deadlock(self) -> MbarrierMisuseError:
        """Return the fault of a wait that never ends."""
        return self.mbarriers.never_completes(self.use)
