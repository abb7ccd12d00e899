"""The breakpoints that programs hit at a step."""

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
    """The programs that stop, the breakpoint, and a problem with its condition."""

    rows: Rows
    breakpoint: Breakpoint
    problem: str = ""


@dataclass(frozen=True, eq=False)
class PendingStop:
    """A program that is about to reach the first line of a function with a breakpoint."""

    hit: Hit
    depth: int

    def is_at(self, batch: Wave) -> bool:
        return depth(batch) == self.depth and bool(np.isin(self.hit.rows[0], batch.rows))


class BreakpointMatcher:
    """Matches the steps of programs against the breakpoints of a session.

    Programs for which `only` is false hit none.
    """

    def __init__(self, breakpoints: Breakpoints, user_variables: Mapping[str, Any]) -> None:
        self.breakpoints = breakpoints
        self.user_variables = user_variables
        self.only: Condition | None = None
        self.pending: list[PendingStop] = []
        self._version = -1
        self._candidates: dict[Operation, Sequence[Breakpoint]] = {}

    def forget(self) -> None:
        """Reset at the start or restart of a launch."""
        self.pending.clear()
        for one in self.breakpoints:
            one.held = None

    def at(self, batch: Wave, op: Operation) -> Hit | None:
        """Return the first breakpoint that programs of a batch hit at a step, if any."""
        first = self.pending_hit(batch)
        candidates = self.candidates(op)
        if not candidates:
            return first
        frame = kernel_frames(batch, int(batch.rows[0]))[-1]
        for one in candidates:
            hit = self.hit(one, frame)
            if hit is not None and one.function is not None:
                self.pending.append(PendingStop(hit, depth(batch)))
            elif hit is not None:
                first = first or hit
        return first

    def pending_hit(self, batch: Wave) -> Hit | None:
        """Return the hit of a function whose first line a program of the batch has reached."""
        for pending in self.pending:
            if pending.is_at(batch):
                self.pending.remove(pending)
                return pending.hit
        return None

    def candidates(self, op: Operation) -> Sequence[Breakpoint]:
        """Return the enabled breakpoints at the location of a step."""
        if self._version != self.breakpoints.version:
            self._version = self.breakpoints.version
            self._candidates.clear()
        candidates = self._candidates.get(op)
        if candidates is None:
            candidates = [one for one in self.breakpoints if one.enabled and _is_at(one, op)]
            self._candidates[op] = candidates
        return candidates

    def hit(self, one: Breakpoint, frame: KernelFrame) -> Hit | None:
        """Return the hit of a breakpoint at a frame's position, if programs stop for it."""
        rows = frame.batch.rows
        problem = ""
        holds = np.ones(len(rows), bool)
        for condition in filter(None, (self.only, one.condition)):
            try:
                holds &= condition.holds(frame, self.user_variables)
            except MissingError as error:
                if one.anywhere or condition is self.only:
                    holds[:] = False
                problem = str(error)
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
        if one.anywhere:
            holds = _became_true(one, frame, holds)
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


def _became_true(one: Breakpoint, frame: KernelFrame, holds: Array) -> Array:
    """Return where the condition has become true, and record in the breakpoint where it is true."""
    if one.held is None:
        one.held = np.zeros(frame.batch.launch.programs, bool)
    rows = frame.batch.rows
    became_true: Array = holds & ~one.held[rows]
    one.held[rows] = holds
    return became_true
