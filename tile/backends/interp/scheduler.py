"""Decides which wave runs next, so that every program that can go on does, and a deadlock is found.

The grid is cut into chunks of programs that start as one wave each. One wave runs at a time, in
order of program where it can be chosen. When no wave is ready:

1. those that wait for a change of memory are ready again if memory has changed;
2. else a join is broken: programs that wait for others to catch up go on without them;
3. else the next chunk starts, since a program may wait for one that has not started;
4. else nobody can ever go on: a deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tile.backends.interp.machine import StepResult
from tile.backends.interp.wave import Join, Wave
from tile.checks import Check
from tile.errors import TileError
from tile.faults import Fault
from tile.spread import of_programs

if TYPE_CHECKING:
    from tile.backends.interp.launch import Launch

# Turns that waves give away with nobody else to take them, after which the next chunk starts
# beside them.
MAX_IDLE_YIELDS = 16


class Scheduler:
    """Runs all waves of a launch."""

    def __init__(self, launch: Launch, chunks: Iterator[Wave]) -> None:
        self.launch = launch
        self.chunks = chunks
        self.queue: deque[Wave] = deque()
        self.parked: list[Wave] = []
        self.joins: dict[Join, None] = {}
        self.executor = launch.executor(self)
        self.idle = 0

    def ready(self, batch: Wave) -> None:
        """A wave can run."""
        self.queue.append(batch)

    def open(self, join: Join) -> None:
        """Programs begin to wait at a join."""
        self.joins[join] = None

    def close(self, join: Join) -> None:
        """Nobody waits there any more."""
        self.joins.pop(join, None)

    def run(self) -> None:
        """Run all programs to their end. Raises `DeadlockError`."""
        while True:
            batch = self.next()
            if batch is None:
                return
            outcome = self.step(batch)
            if outcome is StepResult.PARK:
                self.parked.append(batch)
            elif outcome is StepResult.YIELD:
                self.rotate(batch)
            else:
                self.idle = 0

    def step(self, batch: Wave) -> StepResult:
        """Run a wave; give an error that has no place that of the instruction it stands at."""
        try:
            return self.executor.run(batch)
        except TileError as error:
            instruction = batch.instruction()
            if error.loc is None and instruction is not None:
                error.loc = instruction.op.loc
            raise

    def rotate(self, batch: Wave) -> None:
        """Put a wave that gave its turn away behind all others."""
        others = bool(self.queue)
        self.queue.append(batch)
        if others:
            return
        if self.wake():
            return
        self.idle += 1
        if self.idle >= MAX_IDLE_YIELDS:
            self.idle = 0
            if not self.break_join():
                self.start()

    def next(self) -> Wave | None:
        """The wave to run, or None when all programs have ended."""
        while not self.queue:
            if self.wake() or self.break_join() or self.start():
                continue
            if self.parked:
                self.deadlock()
            return None
        return self.queue.popleft()

    def wake(self) -> bool:
        """Make those ready that waited for a change of memory which has come."""
        ready_batches: list[Wave] = []
        still_parked: list[Wave] = []
        for batch in self.parked:
            assert batch.parked is not None
            (ready_batches if batch.parked.over(self.launch.memory) else still_parked).append(batch)
        self.parked = still_parked
        self.queue.extend(sorted(ready_batches, key=lambda w: int(w.rows[0])))
        return bool(ready_batches)

    def break_join(self) -> bool:
        """Break the youngest join at which programs wait."""
        for join in reversed(self.joins):
            if join.arrivals:
                self.close(join)
                self.executor.release(join)
                return True
        return False

    def start(self) -> bool:
        """Start the next chunk."""
        batch = next(self.chunks, None)
        if batch is not None:
            self.queue.append(batch)
        return batch is not None

    def deadlock(self) -> None:
        """Report that nobody can go on; whoever waits is given up."""
        batch, *others = self.parked
        launch = self.launch
        frame = next(f for f in reversed(batch.frames) if f.loop is not None)
        assert frame.instruction is not None
        rows = np.concatenate([w.rows for w in self.parked])
        waiting = np.unique(launch.programs_of(rows))
        first = int(launch.programs_of(batch.rows)[0])
        notes = [f"the first that waits is {launch.program(int(batch.rows[0]))}"]
        for other in others[:3]:
            instruction = other.instruction()
            if instruction is not None:
                place = launch.program(int(other.rows[0]))
                notes.append(f"also waiting: {place}, at {instruction.op.loc}")
        self.parked.clear()
        launch.report_fault(
            Fault(
                Check.DEADLOCK,
                f"{len(waiting)} of {launch.programs} programs of `{launch.name}` wait in a loop "
                "that nothing can end; nobody is left to change what they wait for",
                kernel=launch.name,
                grid=launch.grid,
                program=launch.coordinates(first),
                loc=frame.instruction.op.loc,
                notes=tuple(notes),
                spread=of_programs(waiting, launch.grid),
            )
        )
