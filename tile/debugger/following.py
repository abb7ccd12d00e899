"""The goals of pdb's `step`, `next`, `return`, `until` and `continue`.

The user follows one program; the others of its batch run with it, and all others run in any order.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.launch import Launch
from tile.backends.interp.wave import Wave
from tile.debugger.frames import depth
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


def reached(goal: Goal, batch: Wave, op: Operation) -> bool:
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


def among(batch: Wave, row: int) -> bool:
    """Return True if a program is in a batch."""
    index = int(np.searchsorted(batch.rows, row))
    return index < len(batch) and int(batch.rows[index]) == row


def _step(goal: Goal, kind: StepKind, at: int, line: int) -> bool:
    return True


def _next(goal: Goal, kind: StepKind, at: int, line: int) -> bool:
    return at <= goal.depth and kind is not StepKind.CALL


def _return(goal: Goal, kind: StepKind, at: int, line: int) -> bool:
    return at < goal.depth or (at == goal.depth and kind is StepKind.RETURN)


def _later(goal: Goal, kind: StepKind, at: int, line: int) -> bool:
    return _return(goal, kind, at, line) or (
        at == goal.depth and kind is StepKind.LINE and line >= goal.line
    )


_RULES: dict[Until, Callable[[Goal, StepKind, int, int], bool]] = {
    Until.STEP: _step,
    Until.NEXT: _next,
    Until.RETURN: _return,
    Until.LATER: _later,
}
