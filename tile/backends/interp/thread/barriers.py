"""Barriers on which bulk copies arrive, and the copies that are on their way.

A copy arrives at the last moment that it may: when its barrier is waited for. Until then what it
writes is marked as in flight, so that whoever reads there too early is found. A barrier counts its
phases, and a wait names one by its lowest bit, as machines have it: of a phase that is over already
nothing is waited for, and a phase that cannot end is waited for in vain.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.memory import SharedMemory, Touch
from tile.backends.interp.values import Array, Rows
from tile.ir.core import Operation

_BYTES, _VECTOR_BYTES = 8, 16  # of a barrier, and of what is looked at together
_NOTHING = -1  # bytes that are expected where nobody has said how many


class Misuse(enum.Enum):
    """What is wrong with a use of a barrier."""

    NOT_MADE = enum.auto()
    MADE = enum.auto()  # and made again
    UNSEEN = enum.auto()  # made by another thread, with no barrier of the program in between
    UNFENCED = enum.auto()  # made without a fence behind
    WAITED_FOR = enum.auto()  # freed while others may wait
    NOT_WAITED = enum.auto()  # expects more while nobody has waited for the last
    IN_VAIN = enum.auto()  # waited for, and never complete


class MisuseError(Exception):
    """A use of a barrier by `op` that must not be, in a program: its number in the chunk."""

    def __init__(
        self, misuse: Misuse, op: Operation, program: int, stage: int, expected: int, begun: int
    ) -> None:
        super().__init__(misuse.name)
        self.misuse = misuse
        self.op = op
        self.program = program
        self.stage = stage
        self.expected = max(0, expected)
        self.begun = begun


@dataclass(frozen=True, eq=False)
class Use:
    """An operation that uses a ring of barriers, in some programs.

    `at` is where the ring begins, in bytes; `stage` is which of its barriers, for each program.
    """

    op: Operation
    at: int
    programs: Rows
    stage: Array

    def touch(self, memory: SharedMemory, stages: int) -> Touch:
        """The whole ring, as the first thread of each program touches it."""
        count = -(-stages * _BYTES // _VECTOR_BYTES)
        start = (self.at + self.programs * memory.size)[:, None] + np.arange(count) * _VECTOR_BYTES
        first = np.zeros((len(self.programs), 1), np.int64)
        barrier = memory.barriers[self.programs][:, None]
        return Touch(self.op, start, _VECTOR_BYTES, first, barrier)

    def take_rows(self, chosen: Array) -> Use:
        """The use in some of the programs."""
        return Use(self.op, self.at, self.programs[chosen], self.stage[chosen])


@dataclass(eq=False)
class _Ring:
    """The barriers of a buffer in all programs: arrays (program), and (program, stage).

    `made` and `waited` are records of shared memory; 0 is never.
    """

    made: Array
    waited: Array
    phase: Array
    expected: Array
    begun: Array

    @classmethod
    def of(cls, programs: int, stages: int) -> _Ring:
        made, waited = (np.zeros(programs, np.int64) for _ in range(2))
        phase, expected, begun = (np.zeros((programs, stages), np.int64) for _ in range(3))
        return cls(made, waited, phase, expected, begun)


@dataclass(frozen=True, eq=False)
class _Copy:
    """Vectors on their way, those of a program in each row, with axes (program, vector, ...)."""

    use: Use
    touch: Touch
    values: Array

    def take_rows(self, chosen: Array) -> _Copy:
        """The copy in some programs."""
        return _Copy(self.use.take_rows(chosen), self.touch.of_rows(chosen), self.values[chosen])


class Barriers:
    """The barriers of a chunk."""

    def __init__(self, memory: SharedMemory, programs: int) -> None:
        self.memory = memory
        self.programs = programs
        self.rings: dict[int, _Ring] = {}
        self.copies: list[_Copy] = []

    def make(self, use: Use, stages: int) -> None:
        """Make all barriers of a ring."""
        ring = self.rings.setdefault(use.at, _Ring.of(self.programs, stages))
        self._require(ring.made[use.programs] == 0, Misuse.MADE, use)
        if ring.phase.shape[1] != stages:
            ring = self.rings[use.at] = _Ring.of(self.programs, stages)
        self.memory.claim(use.touch(self.memory, stages))
        ring.made[use.programs] = self.memory.tick(use.op)
        ring.waited[use.programs] = 0
        ring.phase[use.programs] = ring.begun[use.programs] = 0
        ring.expected[use.programs] = _NOTHING

    def free(self, use: Use) -> None:
        """End all barriers of a ring."""
        ring = self._ring(use)
        seen = ring.waited[use.programs] <= self.memory.barriers[use.programs]
        self._require(seen, Misuse.WAITED_FOR, use)
        self.memory.claim(use.touch(self.memory, ring.phase.shape[1]))
        ring.made[use.programs] = 0

    def expect(self, use: Use, count: int) -> None:
        """So many bytes are to arrive."""
        ring = self._seen_by_machine(use)
        free = ring.expected[use.programs, use.stage] == _NOTHING
        self._require(free, Misuse.NOT_WAITED, use)
        ring.expected[use.programs, use.stage] = count

    def begin(self, use: Use, touch: Touch, values: Array) -> None:
        """Begin to copy vectors."""
        ring = self._seen_by_machine(use)
        self.memory.begin_filling(touch)
        ring.begun[use.programs, use.stage] += touch.start.shape[1] * touch.size
        self.copies.append(_Copy(use, touch, values))

    def wait(self, use: Use, parity: Array) -> None:
        """Wait for the end of the phase whose number has this lowest bit."""
        ring = self._ring(use)
        made = ring.made[use.programs]
        self._require(made < self.memory.barriers[use.programs], Misuse.UNSEEN, use)
        self.memory.look(use.touch(self.memory, ring.phase.shape[1]))
        ring.waited[use.programs] = self.memory.tick(use.op)
        rest = use.take_rows(ring.phase[use.programs, use.stage] & 1 == parity)
        at = rest.programs, rest.stage
        self._require(ring.expected[at] == ring.begun[at], Misuse.IN_VAIN, rest)
        self._arrive(rest)
        ring.phase[at] += 1
        ring.begun[at] = 0
        ring.expected[at] = _NOTHING

    def _arrive(self, use: Use) -> None:
        stage = np.full(self.programs, -1)
        stage[use.programs] = use.stage
        rest = []
        for copy in self.copies:
            done = stage[copy.use.programs] == copy.use.stage
            if copy.use.at != use.at or not done.any():
                rest.append(copy)
                continue
            arrived = copy.take_rows(done)
            values = arrived.values
            words = self.memory.words(values.itemsize, values.shape[-1])
            self.memory.fill(arrived.touch, words, values)
            if not done.all():
                rest.append(copy.take_rows(~done))
        self.copies = rest

    def _ring(self, use: Use) -> _Ring:
        """The ring, which has been made."""
        ring = self.rings.setdefault(use.at, _Ring.of(self.programs, 1))
        self._require(ring.made[use.programs] > 0, Misuse.NOT_MADE, use)
        return ring

    def _seen_by_machine(self, use: Use) -> _Ring:
        """The ring, of which the first thread has told the machine."""
        ring = self._ring(use)
        fenced = self.memory.fences[use.programs, 0] > ring.made[use.programs]
        self._require(fenced, Misuse.UNFENCED, use)
        return ring

    def _require(self, right: Array, misuse: Misuse, use: Use) -> None:
        """Refuse the first program where something is not right."""
        if right.all():
            return
        index = int(right.argmin())
        ring = self.rings[use.at]
        program, stage = int(use.programs[index]), int(use.stage[index])
        made = ring.made[program] > 0
        counts = [int(of[program, stage]) if made else 0 for of in (ring.expected, ring.begun)]
        raise MisuseError(misuse, use.op, program, stage, counts[0], counts[1])
