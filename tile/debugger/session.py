"""A session: follows runs, and hands over to the command loop where programs stop.

The user follows one program; the others of its batch run with it, and all others run in any order.
pdb's commands `step`, `next`, `return`, `until` and `continue` set its `Goal`.
"""

from __future__ import annotations

import bisect
import enum
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.launch import Launch
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.stepping import RerunError, SteppedLaunch, Watcher
from tile.backends.interp.values import Rows
from tile.config import config
from tile.debugger.frames import HostFrame, KernelFrame, caller, depth, kernel_frames
from tile.debugger.stop_points import Breakpoint, BreakpointMatcher, Breakpoints
from tile.errors import ExecutionError, TileError
from tile.ir.core import Operation
from tile.ir.ops.debug import StepKind


class Until(enum.Enum):
    """The places where a followed program can stop next."""

    STEP = enum.auto()  # at its next line, wherever that is
    NEXT = enum.auto()  # at its next line in this function or a caller of it
    RETURN = enum.auto()  # where this function returns
    LATER = enum.auto()  # at a greater line of this function, or where it returns
    NEVER = enum.auto()


@dataclass(frozen=True)
class Goal:
    """A goal of the user, and the position of the program when it was set.

    `row` is the program's index in the launch; without one any program will do.
    """

    until: Until
    launch: Launch | None = None
    row: int | None = None
    depth: int = 1
    line: int = 0


ANY_PROGRAM = Goal(Until.STEP)
RUN = Goal(Until.NEVER)


def reached(goal: Goal, batch: ProgramBatch, op: Operation) -> bool:
    """Return True if a program stops at a step because of the goal."""
    rule = _RULES.get(goal.until)
    if rule is None or (goal.row is not None and not among(batch, goal.row)):
        return False
    kind, at = op["kind"], depth(batch)
    if kind is StepKind.CALL and at == 1:  # the kernel's first line follows, where it stops anyway
        return False
    if goal.row is None:
        return kind is StepKind.LINE
    assert op.loc is not None
    return rule(goal, kind, at, op.loc.line)


def among(batch: ProgramBatch, row: int) -> bool:
    """Return True if a program is in a batch."""
    index = int(np.searchsorted(batch.rows, row))
    return index < len(batch) and int(batch.rows[index]) == row


def _return(goal: Goal, kind: StepKind, at: int) -> bool:
    return at < goal.depth or (at == goal.depth and kind is StepKind.RETURN)


# The rules by which a goal is reached, from the goal, the kind of the step, its depth and its line.
_RULES: dict[Until, Callable[[Goal, StepKind, int, int], bool]] = {
    Until.STEP: lambda goal, kind, at, line: True,
    Until.NEXT: lambda goal, kind, at, line: at <= goal.depth and kind is not StepKind.CALL,
    Until.RETURN: lambda goal, kind, at, line: _return(goal, kind, at),
    Until.LATER: lambda goal, kind, at, line: (
        _return(goal, kind, at)
        or (at == goal.depth and kind is StepKind.LINE and line >= goal.line)
    ),
}


@dataclass(frozen=True, eq=False)
class Stop:
    """A stop: the batch that stands still, and the row of the selected program.

    `reasons` are lines to print first. At a fault, `error` is what will be raised.
    """

    launch: SteppedLaunch
    batch: ProgramBatch
    row: int
    host: list[HostFrame]
    reasons: tuple[str, ...] = ()
    error: TileError | None = None

    @property
    def frames(self) -> list[KernelFrame]:
        """The calls of the program, the kernel first."""
        return kernel_frames(self.batch, self.row)


@dataclass(frozen=True)
class Replay:
    """A position in the past of a launch: the steps of programs before it, and the program."""

    events: int
    row: int


class Session(Watcher):
    """Follows runs; see `Watcher`.

    Where programs stop, `on_stop` is called, which calls `go` or raises. With `faults`, programs
    stop at faults too.
    """

    def __init__(self, on_stop: Callable[[Stop], None], *, faults: bool) -> None:
        self.on_stop = on_stop
        self.faults = faults
        self.breakpoints = Breakpoints()
        self.user_variables: dict[str, Any] = {}
        self.matcher = BreakpointMatcher(self.breakpoints, self.user_variables)
        self.goal: Goal = RUN
        self.selected: tuple[int, int, int] | None = None  # the program that the user selected
        self.interrupted = False
        self.replay: Replay | None = None
        self.history: list[Rows] = []
        self.stopped = 0  # length of the history at the last stop

    # -- events of runs

    @property
    def muted(self) -> bool:
        """True if programs print nothing because they run again."""
        return self.replay is not None

    def begin(self, launch: SteppedLaunch) -> None:
        """Handle the start of a launch, the first one or a restart."""
        self.history.clear()
        self.matcher.forget()
        self.stopped = 0
        if self.goal.launch is not None:  # the launch of the followed program ended by an error
            self.goal = ANY_PROGRAM

    def end(self, launch: SteppedLaunch) -> None:
        """Handle the end of all programs; a followed program among them has ended."""
        self.replay = None
        if self.goal.launch is launch and self.goal.until is not Until.NEVER:
            self.goal = ANY_PROGRAM

    def step(self, batch: ProgramBatch) -> None:
        """Handle a step: the programs of a batch stand at it."""
        self.history.append(batch.rows)
        if self.replay is not None:
            if len(self.history) == self.replay.events:
                selected = self.replay.row
                self.replay = None
                self.pause(batch, selected)
            return
        instruction = batch.instruction()
        assert instruction is not None
        hit = self.matcher.at(batch, instruction.op)
        if hit is not None:
            self.pause(
                batch,
                self.preferred(batch, hit.rows),
                *self.hit_messages(hit.breakpoint, hit.problem),
            )
        elif self.interrupted:
            self.interrupted = False
            self.pause(batch, self.preferred(batch, batch.rows), "Program interrupted.")
        elif self.goal is not RUN and reached(self.goal, batch, instruction.op):
            row = self.goal.row
            self.pause(batch, self.preferred(batch, batch.rows) if row is None else row)

    def stop(self, batch: ProgramBatch) -> None:
        """Handle a `breakpoint()`: the programs of a batch stand at it."""
        if self.replay is not None or self.stopped == len(self.history):
            return
        if config.python_breakpoint == "0":
            return
        if sys.breakpointhook is not sys.__breakpointhook__:
            sys.breakpointhook()
            return
        self.pause(batch, self.preferred(batch, batch.rows))

    def fault(self, batch: ProgramBatch, error: TileError) -> None:
        """Handle a fault of a batch; the error is raised afterwards."""
        self.replay = None
        if self.faults:
            self.goal = RUN
            launch = _launch(batch)
            self.on_stop(Stop(launch, batch, _faulty_program(batch, error), caller(), (), error))

    # -- stopping and continuing

    def pause(self, batch: ProgramBatch, row: int, *reasons: str) -> None:
        """Stop until the user continues the programs."""
        self.goal = RUN
        self.stopped = len(self.history)
        self.on_stop(Stop(_launch(batch), batch, row, caller(), reasons))

    def go(self, until: Until, stop: Stop | None, row: int | None = None, line: int = 0) -> None:
        """Set the goal of the program at `row`, from where the session stands."""
        if until is Until.NEVER:
            self.goal = RUN
            return
        if stop is None or row is None or stop.error is not None:
            self.goal = ANY_PROGRAM
            return
        frame = stop.frames[-1]
        at = depth(stop.batch)
        if frame.kind is StepKind.RETURN:
            if at == 1 and among(stop.batch, row):  # it ends with its kernel
                self.goal = ANY_PROGRAM
                return
            at -= until is not Until.STEP
        self.goal = Goal(until, stop.launch, row, at, line or frame.line + 1)

    def back(self, stop: Stop, row: int, lines: int) -> str:
        """Go back to where a program began its `lines`-th last line, by running the launch again.

        Returns why that is impossible; or raises `RerunError`.
        """
        if stop.launch.report is not None:
            return "a run that collects its faults is not run again"
        events = len(self.history)
        inside_line = stop.error is not None or self.stopped != events
        last = events if inside_line else events - 1
        begun = [i for i in range(last) if _has(self.history[i], row)]
        if not begun:
            return "the program has begun no line before"
        if len(begun) < lines:
            return f"the program has begun only {len(begun)} lines before"
        self.replay = Replay(begun[-lines] + 1, row)
        raise RerunError

    def preferred(self, batch: ProgramBatch, rows: Rows) -> int:
        """Return the program to select: the user's choice, or the followed one, or the first."""
        selected = self.row(batch.launch.grid, self.selected)
        choices = [row for row in (selected, self.goal.row) if row is not None and _has(rows, row)]
        return choices[0] if choices else int(rows[0])

    @staticmethod
    def row(grid: tuple[int, int, int], program: tuple[int, int, int] | None) -> int | None:
        """Return the index of a program in a grid; None if the grid does not contain it."""
        if program is None or any(not 0 <= i < n for i, n in zip(program, grid, strict=True)):
            return None
        return program[0] + grid[0] * (program[1] + grid[1] * program[2])

    def hit_messages(self, one: Breakpoint, problem: str) -> list[str]:
        """Return the lines to print for a breakpoint that was hit; a temporary one is deleted."""
        lines = [f"*** the condition of breakpoint {one.number}: {problem}"] if problem else []
        if one.temporary:
            self.breakpoints.remove(one)
            lines.append(f"Deleted breakpoint {one.number} at {one.place}")
        return lines


def _has(rows: Rows, row: int) -> bool:
    index = bisect.bisect_left(rows, row)
    return index < len(rows) and int(rows[index]) == row


def _launch(batch: ProgramBatch) -> SteppedLaunch:
    launch = batch.launch
    assert isinstance(launch, SteppedLaunch)
    return launch


# How notes of errors that no check reported name the first program: `LaunchContext.program`.
_PROGRAM = re.compile(r"program \((\d+), (\d+), (\d+)\) of grid")


def _faulty_program(batch: ProgramBatch, error: TileError) -> int:
    """Return the program that an error belongs to."""
    fault = error.fault if isinstance(error, ExecutionError) else None
    if fault is not None:
        row = Session.row(batch.launch.grid, fault.program)
        if row is not None and among(batch, row):
            return row
    match = _PROGRAM.search("\n".join(error.notes))
    row = None if match is None else Session.row(batch.launch.grid, _coordinates(match))
    return row if row is not None and among(batch, row) else int(batch.rows[0])


def _coordinates(match: re.Match[str]) -> tuple[int, int, int]:
    x, y, z = map(int, match.groups())
    return x, y, z
