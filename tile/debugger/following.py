"""How far programs run before they stop again: pdb's `step`, `next`, `return`, `until`, `continue`.

The user follows one program; those of its wave come along, and all others run as they may.
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
    """Where the program that is followed stops next."""

    STEP = enum.auto()  # at its next line, wherever that is
    NEXT = enum.auto()  # at its next line in this function or a caller of it
    RETURN = enum.auto()  # where this function returns
    LATER = enum.auto()  # at a greater line of this function, or where it returns
    NEVER = enum.auto()


@dataclass(frozen=True)
class Goal:
    """What the user asked for, and where the program was then.

    `row` is the program's, in a launch; without one any program will do.
    """

    until: Until
    launch: Launch | None = None
    row: int | None = None
    depth: int = 1
    line: int = 0


ANY_PROGRAM = Goal(Until.STEP)
RUN = Goal(Until.NEVER)


def reached(goal: Goal, wave: Wave, op: Operation) -> bool:
    """Whether a program stops at a step for the goal's sake."""
    rule = _RULES.get(goal.until)
    if rule is None or (goal.row is not None and not among(wave, goal.row)):
        return False
    kind, at = op["kind"], depth(wave)
    if kind is StepKind.CALL and at == 1:  # a kernel's first line is as good a place
        return False
    if goal.row is None:
        return kind is StepKind.LINE
    assert op.loc is not None
    return rule(goal, kind, at, op.loc.line)


def among(wave: Wave, row: int) -> bool:
    """Whether a program is in a wave."""
    index = int(np.searchsorted(wave.rows, row))
    return index < len(wave) and int(wave.rows[index]) == row


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
