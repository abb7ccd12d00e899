"""Runs under a debugger: statement by statement, on all programs at once.

The module has `debug_step` operations (`tile/frontend/python/debug_info.py`) and runs as the
frontend emitted it, so that every statement is executed as written and every variable has its
value. The executor is that of runs with checks. A step is an instruction that calls the `Watcher`,
which may inspect any state and returns when the programs are to continue. A watcher that raises
`RerunError` restarts the launch with the contents that its arrays had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.bytecode import BlockCode, Instruction, Run
from tile.backends.interp.program_batch import LaunchContext, ProgramBatch, StepResult
from tile.backends.interp.sanitizer.launch import (
    CheckedCode,
    CheckedLaunch,
    CheckedTranslator,
    translate_checked,
)
from tile.backends.interp.sanitizer.poison_sources import undefined_variable
from tile.backends.interp.scheduler import BatchExecutor, Scheduler
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array
from tile.checks import Check, Checks
from tile.config import config
from tile.errors import DeadlockError, TileError
from tile.faults import FaultLog
from tile.instrumentation import Scoped, active_report
from tile.ir.core import Block, Operation
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, debug


class SteppedKernel:
    """A kernel that a debugger watches, with `checks` (None: those of the configuration).

    If no watcher is installed, `open_debugger` creates one.
    """

    def __init__(self, module: Module, rules: Rules, checks: Checks | None) -> None:
        self.module = module
        self.rules = rules
        self.checks = checks
        self.codes: dict[Checks, CheckedCode] = {}
        self.open_debugger: Callable[[], Watcher] | None = None

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        checks = config.sanitize if self.checks is None else self.checks
        code = self.codes.get(checks)
        if code is None:
            code = self.codes[checks] = translate_stepped(self.module, self.rules, checks)
        by = watcher()
        if by is None:
            by = Watcher() if self.open_debugger is None else self.open_debugger()
        before = Snapshot(arguments)
        while True:
            try:
                SteppedLaunch(code, grid, arguments, active_report(), by).run()
            except RerunError:
                before.restore()
            else:
                return


class Snapshot:
    """The contents of a launch's arrays before it."""

    def __init__(self, arguments: Sequence[LaunchArgument]) -> None:
        self.saved = [
            (memory, memory.copy()) for array in _arrays(arguments) for memory in _parts(array)
        ]

    def restore(self) -> None:
        """Restore the contents."""
        for memory, copy in self.saved:
            memory[...] = copy


def _arrays(arguments: Sequence[LaunchArgument]) -> Iterator[Array]:
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            yield argument
            yield from getattr(argument, "targets", ())


def _parts(array: Array) -> Iterator[Array]:
    """Yield an array's elements, and its record of written elements if it has one."""
    if array.flags.writeable:
        yield array.view(np.ndarray)
        written_span = getattr(array, "written_span", None)
        written = None if written_span is None else written_span()
        if written is not None:
            yield written


class SteppedScheduler(Scheduler):
    """Reports faults to the watcher, and keeps the state of all programs for the debugger."""

    def __init__(
        self,
        launch: LaunchContext,
        chunks: Iterator[ProgramBatch],
        executor: Callable[[Scheduler], BatchExecutor],
    ) -> None:
        super().__init__(launch, chunks, executor)
        assert isinstance(launch, SteppedLaunch)
        self.watcher = launch.watcher
        self.running: ProgramBatch | None = None
        self.started = np.zeros(launch.programs, np.bool_)  # by program
        launch.scheduling = self

    def start(self) -> bool:
        started = super().start()
        if started:
            self.started[self.queue[-1].rows] = True
        return started

    def step(self, batch: ProgramBatch) -> StepResult:
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
        report: FaultLog | None,
        watcher: Watcher,
    ) -> None:
        super().__init__(code, grid, arguments, report)
        self.watcher = watcher

    def run(self) -> None:
        """Run all programs; see `Watcher`."""
        self.watcher.begin(self)
        super().run()
        self.watcher.end(self)


@dataclass(eq=False)
class StepInstruction(Instruction):
    """A step; it reads no operand. `shown` are the registers of its variables, for a debugger."""

    shown: tuple[int, ...] = ()


def translate_stepped(module: Module, rules: Rules, checks: Checks) -> CheckedCode:
    """Translate a module with steps to code; see `translate_checked`."""
    return translate_checked(module, rules, checks, SteppedTranslator)


class SteppedTranslator(CheckedTranslator):
    """Translates steps to calls of the watcher, and keeps registers of variables alive."""

    def run(self, op: Operation) -> Run:
        run = super().run(op)
        if op.defn is arith.poison and Check.UNDEF not in self.checks:
            # No program that compiles uses this value, but a debugger must not show one for it.
            return undefined_variable(op, run)
        make = _WATCHED.get(op.defn)
        return run if make is None else make(run)

    def block(self, block: Block) -> BlockCode:
        code = super().block(block)
        code.instructions = [
            StepInstruction(i.op, (), (), (), i.run, shown=i.operands)
            if i.op.defn is debug.debug_step
            else i
            for i in code.instructions
        ]
        return code

    def free(self, block: Block, code: BlockCode) -> None:
        super().free(block, code)
        shown = self.shown()
        for instruction in code.instructions:
            instruction.frees = tuple(r for r in instruction.frees if r not in shown)

    def shown(self) -> set[int]:
        """Return the registers of values that some step shows."""
        return {
            register
            for value, register in self.registers.items()
            if any(user.defn is debug.debug_step for user in value.users)
        }


def _unless_muted(plain: Run) -> Run:
    def run(batch: ProgramBatch, *values: Any) -> None:
        if not _launch(batch).watcher.muted:
            plain(batch, *values)

    return run


def _launch(batch: ProgramBatch) -> SteppedLaunch:
    return cast("SteppedLaunch", batch.launch)


_WATCHED: dict[OpDef, Callable[[Run], Run]] = {
    debug.debug_step: lambda plain: lambda batch: _launch(batch).watcher.step(batch),
    debug.breakpoint_: lambda plain: lambda batch: _launch(batch).watcher.stop(batch),
    debug.device_print: _unless_muted,
}


class RerunError(Exception):
    """A request to restart the launch from its beginning, with the contents memory had then."""


class Watcher:
    """An observer of runs; each method returns when the programs are to continue.

    This one lets all programs run. A method may raise an error to end the run; `RerunError`
    restarts it.
    """

    @property
    def muted(self) -> bool:
        """True if programs print nothing because they run again."""
        return False

    def begin(self, launch: SteppedLaunch) -> None:
        """Handle the start of a launch, the first one or a restart."""

    def step(self, batch: ProgramBatch) -> None:
        """Handle a step: the programs of a batch stand at it."""

    def stop(self, batch: ProgramBatch) -> None:
        """Handle a `breakpoint()`: the programs of a batch stand at it."""

    def fault(self, batch: ProgramBatch, error: TileError) -> None:
        """Handle a fault of a batch; the error is raised afterwards."""

    def end(self, launch: SteppedLaunch) -> None:
        """Handle the end of all programs."""


# The watcher of all launches of kernels with steps in this context, if there is one.
watcher: Scoped[Watcher | None] = Scoped("tile_watcher", None)
