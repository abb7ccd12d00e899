"""A session: follows runs, and lets somebody talk with the user where programs stop."""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tile.backends.interp.stepped.launch import SteppedLaunch
from tile.backends.interp.stepped.watcher import RerunError
from tile.backends.interp.values import Rows
from tile.backends.interp.wave import Wave
from tile.config import config
from tile.debugger.breakpoints import Breakpoint, Breakpoints
from tile.debugger.following import ANY_PROGRAM, RUN, Goal, Until, among, reached
from tile.debugger.frames import HostFrame, KernelFrame, caller, depth, kernel_frames
from tile.debugger.hits import Hits
from tile.errors import ExecutionError, TileError
from tile.ir.ops.debug import StepKind


@dataclass(frozen=True, eq=False)
class Stop:
    """Where programs stand still: the wave, and the row of the program that is looked at.

    `reasons` are lines to print first. At a fault `error` is what will be raised.
    """

    launch: SteppedLaunch
    wave: Wave
    row: int
    host: list[HostFrame]
    reasons: tuple[str, ...] = ()
    error: TileError | None = None

    @property
    def frames(self) -> list[KernelFrame]:
        """The calls of the program, the kernel first."""
        return kernel_frames(self.wave, self.row)


@dataclass(frozen=True)
class Replay:
    """A place in the past of a launch: how many steps of programs led there, and whose it is."""

    events: int
    row: int


class Session:
    """Follows runs; see `Watcher`.

    `talk` is called where programs stop, and calls `go` or raises. `faults` says whether programs
    stop at faults.
    """

    def __init__(self, talk: Callable[[Stop], None], *, faults: bool) -> None:
        self.talk = talk
        self.faults = faults
        self.breakpoints = Breakpoints()
        self.own: dict[str, Any] = {}
        self.hits = Hits(self.breakpoints, self.own)
        self.goal: Goal = RUN
        self.chosen: tuple[int, int, int] | None = None  # whom the user wants to look at
        self.interrupted = False
        self.replay: Replay | None = None
        self.history: list[Rows] = []
        self.stopped = 0  # the length of the history when programs stopped last

    # -- what runs tell

    @property
    def muted(self) -> bool:
        """Whether programs print nothing: they do again what they did before."""
        return self.replay is not None

    def begin(self, launch: SteppedLaunch) -> None:
        """A launch begins, for the first time or again."""
        self.history.clear()
        self.hits.forget()
        self.stopped = 0
        if self.goal.launch is not None:  # the launch with whom the user followed ended by an error
            self.goal = ANY_PROGRAM

    def end(self, launch: SteppedLaunch) -> None:
        """All programs have ended; whom the user follows is none of them any more."""
        self.replay = None
        if self.goal.launch is launch and self.goal.until is not Until.NEVER:
            self.goal = ANY_PROGRAM

    def step(self, wave: Wave) -> None:
        """The programs of a wave stand at a step."""
        self.history.append(wave.rows)
        if self.replay is not None:
            if len(self.history) == self.replay.events:
                again = self.replay.row
                self.replay = None
                self.pause(wave, again)
            return
        instruction = wave.instruction()
        assert instruction is not None
        hit = self.hits.at(wave, instruction.op)
        if hit is not None:
            self.pause(
                wave, self.preferred(wave, hit.rows), *self.said(hit.breakpoint, hit.problem)
            )
        elif self.interrupted:
            self.interrupted = False
            self.pause(wave, self.preferred(wave, wave.rows), "Program interrupted.")
        elif self.goal is not RUN and reached(self.goal, wave, instruction.op):
            row = self.goal.row
            self.pause(wave, self.preferred(wave, wave.rows) if row is None else row)

    def stop(self, wave: Wave) -> None:
        """The programs of a wave stand at a `breakpoint()`."""
        if self.replay is not None or self.stopped == len(self.history):
            return
        if config.python_breakpoint == "0":
            return
        if sys.breakpointhook is not sys.__breakpointhook__:
            sys.breakpointhook()
            return
        self.pause(wave, self.preferred(wave, wave.rows))

    def fault(self, wave: Wave, error: TileError) -> None:
        """A wave is at fault; the error is raised afterwards."""
        self.replay = None
        if self.faults:
            self.goal = RUN
            launch = _launch(wave)
            self.talk(Stop(launch, wave, _culprit(wave, error), caller(), (), error))

    # -- stopping and going on

    def pause(self, wave: Wave, row: int, *reasons: str) -> None:
        """Let programs stand still until the user sends them on."""
        self.goal = RUN
        self.stopped = len(self.history)
        self.talk(Stop(_launch(wave), wave, row, caller(), reasons))

    def go(self, until: Until, stop: Stop | None, row: int | None = None, line: int = 0) -> None:
        """Set how far the program at `row` runs, from where the session stands."""
        if until is Until.NEVER:
            self.goal = RUN
            return
        if stop is None or row is None or stop.error is not None:
            self.goal = ANY_PROGRAM
            return
        frame = stop.frames[-1]
        at = depth(stop.wave)
        if frame.kind is StepKind.RETURN:
            if at == 1 and among(stop.wave, row):  # it has ended with its kernel
                self.goal = ANY_PROGRAM
                return
            at -= until is not Until.STEP
        self.goal = Goal(until, stop.launch, row, at, line or frame.line + 1)

    def back(self, stop: Stop, row: int, lines: int) -> str:
        """Go back to where a program began its `lines`-th last line, by running again.

        Returns why that cannot be; or raises `RerunError`.
        """
        if stop.launch.report is not None:
            return "a run that collects its faults is not run again"
        seen = len(self.history)
        here = stop.error is not None or self.stopped != seen
        own = [i for i in range(seen if here else seen - 1) if _has(self.history[i], row)]
        if len(own) < lines:
            return (
                "the program has begun no line before"
                if not own
                else (f"the program has begun only {len(own)} lines before")
            )
        self.replay = Replay(own[-lines] + 1, row)
        raise RerunError

    def preferred(self, wave: Wave, rows: Rows) -> int:
        """The program to look at: the one that the user chose, or follows, or the first."""
        chosen = self.row(wave.launch.grid, self.chosen)
        choices = [row for row in (chosen, self.goal.row) if row is not None and _has(rows, row)]
        return choices[0] if choices else int(rows[0])

    @staticmethod
    def row(grid: tuple[int, int, int], place: tuple[int, int, int] | None) -> int | None:
        """The number of a program in a grid; None if it is none of the grid's."""
        if place is None or any(not 0 <= i < n for i, n in zip(place, grid, strict=True)):
            return None
        return place[0] + grid[0] * (place[1] + grid[1] * place[2])

    def said(self, one: Breakpoint, problem: str) -> list[str]:
        """What to say of a breakpoint that was hit; one that is temporary is gone then."""
        lines = [f"*** the condition of breakpoint {one.number}: {problem}"] if problem else []
        if one.temporary:
            self.breakpoints.remove(one)
            lines.append(f"Deleted breakpoint {one.number} at {one.place}")
        return lines


def _has(rows: Rows, row: int) -> bool:
    index = bisect.bisect_left(rows, row)
    return index < len(rows) and int(rows[index]) == row


def _launch(wave: Wave) -> SteppedLaunch:
    launch = wave.launch
    assert isinstance(launch, SteppedLaunch)
    return launch


# How notes of errors that are no faults of a check name the first program: `Launch.program`.
_NAMED = re.compile(r"program \((\d+), (\d+), (\d+)\) of grid")


def _culprit(wave: Wave, error: TileError) -> int:
    """The program that an error is of."""
    fault = error.fault if isinstance(error, ExecutionError) else None
    if fault is not None:
        found = Session.row(wave.launch.grid, fault.program)
        if found is not None and among(wave, found):
            return found
    named = _NAMED.search("\n".join(error.notes))
    row = None if named is None else Session.row(wave.launch.grid, _place(named))
    return row if row is not None and among(wave, row) else int(wave.rows[0])


def _place(named: re.Match[str]) -> tuple[int, int, int]:
    x, y, z = map(int, named.groups())
    return x, y, z
