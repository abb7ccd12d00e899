"""The scheduler of program batches: fair, so that a program makes progress if it can, or deadlocks.

The grid is divided into chunks of programs, each of which starts as one batch. One batch runs at a
time, in order of program where there is a choice. When no batch is ready:

1. batches that wait for a change of memory are ready again if memory has changed;
2. else a join is broken: programs that wait for others to reconverge continue without them;
3. else the next chunk starts, since a program may wait for one that has not started;
4. else batches that wait, and whose loops write what others wait for, run some more iterations;
5. else no program can ever continue: a deadlock, which is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from tile.backends.interp.fault_report import error_for
from tile.backends.interp.program_batch import Join, LaunchContext, ProgramBatch, StepResult
from tile.backends.interp.spin_loops import Wait
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.virtual_memory import DetectedFaultError
from tile.checks import Check
from tile.errors import TileError
from tile.faults import Fault
from tile.heatmap import program_fault_extent


class BatchExecutor(Protocol):
    """The scheduler's view of its executor, `executor.Executor`."""

    def run(self, batch: ProgramBatch) -> StepResult:
        """Run a batch as far as it goes."""

    def release(self, join: Join) -> None:
        """Let the programs that arrived at a join continue without the rest."""


class Scheduler:
    """Runs all batches of a launch with the executor that `executor` creates for it."""

    def __init__(
        self,
        launch: LaunchContext,
        chunks: Iterator[ProgramBatch],
        executor: Callable[[Scheduler], BatchExecutor],
    ) -> None:
        self.launch = launch
        self.chunks = chunks
        self.queue: deque[ProgramBatch] = deque()
        self.parked: list[ProgramBatch] = []
        self.resumed: set[ProgramBatch] = set()  # by `resume_writers`, since a batch was woken
        self.joins: dict[Join, None] = {}
        self.executor = executor(self)
        self.idle = 0
        launch.ready = self.ready

    def ready(self, batch: ProgramBatch) -> None:
        """Queue a batch that can run."""
        self.queue.append(batch)

    def open(self, join: Join) -> None:
        """Register a join at which programs wait."""
        self.joins[join] = None

    def close(self, join: Join) -> None:
        """Remove a join at which no program waits any more."""
        self.joins.pop(join, None)

    def run(self) -> None:
        """Run all programs to completion. Raises `DeadlockError`."""
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

    def step(self, batch: ProgramBatch) -> StepResult:
        """Run a batch; an error without a location gets that of the current instruction."""
        try:
            return self.executor.run(batch)
        except DetectedFaultError as fault:
            raise error_for(fault, batch) from None
        except TileError as error:
            instruction = batch.instruction()
            if error.loc is None and instruction is not None:
                error.loc = instruction.op.loc
            raise

    def rotate(self, batch: ProgramBatch) -> None:
        """Requeue a batch that yielded, after all others."""
        others = bool(self.queue)
        self.queue.append(batch)
        if others:
            return
        if self.wake():
            return
        self.idle += 1
        if self.idle >= TUNING.idle_yields:
            self.idle = 0
            if not (self.break_join() or self.start()):
                self.resume_writers(batch)

    def next(self) -> ProgramBatch | None:
        """Return the batch to run, or None when all programs have ended."""
        while not self.queue:
            if self.wake() or self.break_join() or self.start() or self.resume_writers():
                continue
            if self.parked:
                self.deadlock()
            return None
        return self.queue.popleft()

    def wake(self) -> bool:
        """Make batches ready whose wait for a change of memory is over; return True if any is."""
        ready_batches: list[ProgramBatch] = []
        for batch in self.parked:
            assert batch.parked is not None
            if batch.parked.over(self.launch.memory):
                ready_batches.append(batch)
        if ready_batches:
            self.resumed.clear()
        return self.resume(ready_batches)

    def resume_writers(self, running: ProgramBatch | None = None) -> bool:
        """Let waiting loops run on that write what other batches read; return False if none do.

        Each does so once until a batch is woken. What `running` reads, a batch that does not wait
        but only yields, is not known.
        """
        memory = self.launch.memory
        waits = [(batch, batch.parked) for batch in self.parked if isinstance(batch.parked, Wait)]
        writers = []
        for batch, wait in waits:
            if running is not None:
                serves = bool(wait.stores)
            else:
                serves = batch not in self.resumed and any(
                    wait.serves(other, memory) for _, other in waits if other is not wait
                )
            if serves:
                writers.append(batch)
        self.resumed.update(writers)
        return self.resume(writers)

    def resume(self, batches: list[ProgramBatch]) -> bool:
        """Queue parked batches; return False if there are none."""
        self.parked = [batch for batch in self.parked if batch not in batches]
        self.queue.extend(sorted(batches, key=lambda w: int(w.rows[0])))
        return bool(batches)

    def break_join(self) -> bool:
        """Break the youngest join at which programs wait; return False if there is none."""
        for join in reversed(self.joins):
            if join.waiting:
                self.close(join)
                self.executor.release(join)
                return True
        return False

    def start(self) -> bool:
        """Start the next chunk; return False if there is none."""
        batch = next(self.chunks, None)
        if batch is not None:
            self.queue.append(batch)
        return batch is not None

    def deadlock(self) -> None:
        """Report a deadlock, and give up the waiting batches."""
        for batch in self.parked:
            assert batch.parked is not None
            error = batch.parked.deadlock()
            if error is not None:
                raise error_for(error, batch)
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
                program = launch.program(int(other.rows[0]))
                notes.append(f"also waiting: {program}, at {instruction.op.loc}")
        self.parked.clear()
        launch.report_fault(
            Fault(
                Check.DEADLOCK,
                f"{len(waiting)} of {launch.programs} programs of `{launch.name}` wait in a loop "
                "forever; no other program is left to change what they wait for",
                kernel=launch.name,
                grid=launch.grid,
                program=launch.coordinates(first),
                loc=frame.instruction.op.loc,
                notes=tuple(notes),
                extent=program_fault_extent(waiting, launch.grid),
            )
        )
