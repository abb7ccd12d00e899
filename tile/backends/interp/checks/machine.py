"""A machine that looks at what decides where programs go."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from tile.backends.interp.checks.access import launch_of, undefined, wrapped
from tile.backends.interp.checks.marked import Flag, Mark, Marked, bare, flag_of, marked
from tile.backends.interp.code import Instruction
from tile.backends.interp.machine import Machine, Then
from tile.backends.interp.values import Held, array_of
from tile.backends.interp.wave import Frame, Wave
from tile.ir.core import Operation
from tile.ir.effects import effects
from tile.ir.opdef import Effect
from tile.ir.ops import control

ACCESSES = Effect.READ | Effect.WRITE
DECIDING = (Mark.UNDEFINED, Mark.WRAPPED)


class CheckedMachine(Machine):
    """Reports a branch or a loop that is decided by a value that is undefined, or wrapped.

    With a report, the number that is there decides: zero, where it is undefined.

    A `for` whose bounds wrapped runs a wrong number of times, which is always reported. The
    condition of an `if` or a `while` is like a mask to the accesses inside. Where there are none it
    is like that of a selection: what the operation gives is marked as wrapped, and reported if it
    comes to decide where memory is accessed.
    """

    def if_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        self.decides(wave, frame, instruction, instruction.op, "branches on a value")
        return super().if_(wave, frame, instruction)

    def deliver(self, wave: Wave, instruction: Instruction, values: list[Held]) -> None:
        if values and instruction.op.defn is control.if_:
            values = _selected(instruction.op, wave.frames[-1], instruction, values)
        super().deliver(wave, instruction, values)

    def condition(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        assert frame.instruction is not None
        assert frame.loop is not None
        loop = frame.instruction.op
        self.decides(wave, frame, instruction, loop, "ends a loop by a value")
        frame.loop.carried = _selected(loop, frame, instruction, frame.loop.carried)
        return super().condition(wave, frame, instruction)

    def for_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        message = "counts from, to or in steps of a value"
        self.decides(wave, frame, instruction, None, message, bounds=3)
        return super().for_(wave, frame, instruction)

    def operands(self, frame: Frame, instruction: Instruction) -> list[Held]:
        values = super().operands(frame, instruction)
        if instruction.op.defn is control.for_:
            return _counted(values)
        return values

    def decides(
        self,
        wave: Wave,
        frame: Frame,
        instruction: Instruction,
        guarding: Operation | None,
        message: str,
        bounds: int = 1,
    ) -> None:
        """Look at the first operands, `bounds` in number.

        guarding: an operation in which wrapped values matter only to accesses.
        """
        launch = launch_of(wave)
        for register in instruction.operands[:bounds]:
            value = frame.activation.read(register)
            if type(value) is not Marked:
                continue
            with launch.together:
                for mark, report in ((Mark.UNDEFINED, undefined), (Mark.WRAPPED, wrapped)):
                    flag = flag_of(value, mark)
                    if flag is None or not flag.where.any():
                        continue
                    if mark is Mark.UNDEFINED or guarding is None or _accesses(guarding):
                        make = partial(report, wave, instruction.op, flag, message)
                        launch.found_in(wave, flag.where, make)


def _counted(values: list[Held]) -> list[Held]:
    """Let a `for` end at once in programs in which one of its bounds is marked."""
    lower, upper, step, *carried = values
    flags = [flag_of(bound, mark) for bound in (lower, upper, step) for mark in DECIDING]
    wrong = [flag.where for flag in flags if flag is not None]
    if not wrong:
        return values
    first, last, by = map(array_of, (lower, upper, step))
    left_out = reduce(np.logical_or, wrong)
    return [first, np.where(left_out, first, last), np.where(left_out, 1, by), *carried]


def _accesses(op: Operation) -> bool:
    return bool(effects(op) & ACCESSES)


def _selected(
    op: Operation, frame: Frame, instruction: Instruction, values: list[Held]
) -> list[Held]:
    """Mark results that a condition selects in the programs in which it wrapped."""
    flag = flag_of(frame.activation.read(instruction.operands[0]), Mark.WRAPPED)
    if flag is None or _accesses(op):
        return values
    return [
        _also(value, flag, result.type.rank)
        for value, result in zip(values, op.results, strict=True)
    ]


def _also(value: Held, flag: Flag, rank: int) -> Held:
    where = flag.where.reshape(-1, *(1,) * rank)
    flags = value.flags if isinstance(value, Marked) else {}
    own = flags.get(Mark.WRAPPED)
    fresh = Flag(where if own is None else where | own.where, flag.cause)
    return marked(bare(value), {**flags, Mark.WRAPPED: fresh})
