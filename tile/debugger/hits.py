"""Which breakpoints programs hit at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.values import Array, Rows
from tile.backends.interp.wave import Wave
from tile.debugger.breakpoints import Breakpoint, Breakpoints
from tile.debugger.conditions import Condition
from tile.debugger.expressions import FAILURES
from tile.debugger.frames import KernelFrame, depth, kernel_frames
from tile.debugger.values import MissingError
from tile.ir.core import Operation
from tile.ir.ops.debug import StepKind


@dataclass(frozen=True, eq=False)
class Hit:
    """Programs that stop, the breakpoint, and what was wrong with its condition."""

    rows: Rows
    breakpoint: Breakpoint
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Arrival:
    """A program that is about to reach the first line of a function that has a breakpoint."""

    hit: Hit
    depth: int

    def is_at(self, wave: Wave) -> bool:
        return depth(wave) == self.depth and bool(np.isin(self.hit.rows[0], wave.rows))


class Hits:
    """Asks the breakpoints of a session at each step.

    Programs for which `only` is not true hit none.
    """

    def __init__(self, breakpoints: Breakpoints, own: Mapping[str, Any]) -> None:
        self.breakpoints = breakpoints
        self.own = own
        self.only: Condition | None = None
        self.arrivals: list[Arrival] = []
        self._version = -1
        self._candidates: dict[Operation, Sequence[Breakpoint]] = {}

    def forget(self) -> None:
        """A launch begins or begins again: nobody is on the way anywhere."""
        self.arrivals.clear()
        for one in self.breakpoints:
            one.held = None

    def at(self, wave: Wave, op: Operation) -> Hit | None:
        """The first breakpoint that programs of a wave hit at a step, if they do."""
        found = self.arrived(wave)
        candidates = self.candidates(op)
        if not candidates:
            return found
        frame = kernel_frames(wave, int(wave.rows[0]))[-1]
        for one in candidates:
            hit = self.hit(one, frame)
            if hit is not None and one.function is not None:
                self.arrivals.append(Arrival(hit, depth(wave)))
            elif hit is not None:
                found = found or hit
        return found

    def arrived(self, wave: Wave) -> Hit | None:
        """The breakpoint of a function to whose first line a program of the wave has come."""
        for arrival in self.arrivals:
            if arrival.is_at(wave):
                self.arrivals.remove(arrival)
                return arrival.hit
        return None

    def candidates(self, op: Operation) -> Sequence[Breakpoint]:
        """The breakpoints that a step is a place of."""
        if self._version != self.breakpoints.version:
            self._version = self.breakpoints.version
            self._candidates.clear()
        found = self._candidates.get(op)
        if found is None:
            found = [one for one in self.breakpoints if one.enabled and _is_at(one, op)]
            self._candidates[op] = found
        return found

    def hit(self, one: Breakpoint, frame: KernelFrame) -> Hit | None:
        """Whether programs stop for a breakpoint where they are."""
        rows = frame.wave.rows
        problem = ""
        holds = np.ones(len(rows), bool)
        for condition in filter(None, (self.only, one.condition)):
            try:
                holds &= condition.holds(frame, self.own)
            except MissingError as error:
                if one.anywhere or condition is self.only:
                    holds[:] = False
                problem = str(error)
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
        if one.anywhere:
            holds = _fresh(one, frame, holds)
        if not holds.any():
            return None
        if one.ignore:
            one.ignore -= 1
            return None
        one.hits += 1
        return Hit(rows[holds], one, problem)


def _is_at(one: Breakpoint, op: Operation) -> bool:
    assert op.loc is not None
    if one.function is not None:
        return op["kind"] is StepKind.CALL and op.loc.function == one.function
    if op["kind"] is not StepKind.LINE:
        return False
    return one.anywhere or one.is_at(op.loc.file, op.loc.line)


def _fresh(one: Breakpoint, frame: KernelFrame, holds: Array) -> Array:
    """Where the condition has become true; the breakpoint keeps for which programs it is."""
    if one.held is None:
        one.held = np.zeros(frame.wave.launch.programs, bool)
    rows = frame.wave.rows
    fresh: Array = holds & ~one.held[rows]
    one.held[rows] = holds
    return fresh
