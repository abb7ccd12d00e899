"""A run of a kernel under a watcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.checks.launch import CheckedLaunch
from tile.backends.interp.checks.translate import CheckedCode
from tile.backends.interp.launch import Launch
from tile.backends.interp.machine import StepResult
from tile.backends.interp.scheduler import Scheduler
from tile.backends.interp.stepped.watcher import Watcher
from tile.backends.interp.wave import Wave
from tile.errors import DeadlockError, TileError
from tile.faults import Report


class SteppedScheduler(Scheduler):
    """Reports faults to the watcher, and keeps the state of all programs for the debugger."""

    def __init__(self, launch: Launch, chunks: Iterator[Wave]) -> None:
        super().__init__(launch, chunks)
        assert isinstance(launch, SteppedLaunch)
        self.watcher = launch.watcher
        self.running: Wave | None = None
        self.started = np.zeros(launch.programs, np.bool_)  # by program
        launch.scheduling = self

    def start(self) -> bool:
        started = super().start()
        if started:
            self.started[self.queue[-1].rows] = True
        return started

    def step(self, batch: Wave) -> StepResult:
        self.running = batch
        try:
            return super().step(batch)
        except TileError as error:
            self.watcher.fault(batch, error)
            raise

    def deadlock(self) -> None:
        waiting = list(self.parked)
        self.running = waiting[0]
        try:
            super().deadlock()
        except DeadlockError as error:
            self.parked = waiting
            self.watcher.fault(waiting[0], error)
            raise


class SteppedLaunch(CheckedLaunch):
    """A run that a watcher follows; `scheduling` has its batches."""

    scheduler = SteppedScheduler
    scheduling: SteppedScheduler

    def __init__(
        self,
        code: CheckedCode,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        report: Report | None,
        watcher: Watcher,
    ) -> None:
        super().__init__(code, grid, arguments, report)
        self.watcher = watcher

    def run(self) -> None:
        """Run all programs; see `Watcher`."""
        self.watcher.begin(self)
        super().run()
        self.watcher.end(self)
