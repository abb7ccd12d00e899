"""A machine that looks at what decides where programs go."""

from __future__ import annotations

from tile.backends.interp.checks.access import launch_of, undefined
from tile.backends.interp.checks.marked import Mark, flag_of
from tile.backends.interp.code import Instruction
from tile.backends.interp.machine import Machine, Then
from tile.backends.interp.wave import Frame, Wave


class CheckedMachine(Machine):
    """Reports a branch on a value that nobody defined; with a report, zero decides it."""

    def if_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        self.decides(wave, frame, instruction, "branches on a value that is undefined")
        return super().if_(wave, frame, instruction)

    def condition(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        self.decides(wave, frame, instruction, "ends a loop by a value that is undefined")
        return super().condition(wave, frame, instruction)

    def for_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        message = "counts from, to or in steps of a value that is undefined"
        self.decides(wave, frame, instruction, message, bounds=3)
        return super().for_(wave, frame, instruction)

    def decides(
        self, wave: Wave, frame: Frame, instruction: Instruction, message: str, bounds: int = 1
    ) -> None:
        """The first operands, `bounds` in number, must be defined in every program."""
        for register in instruction.operands[:bounds]:
            flag = flag_of(frame.activation.read(register), Mark.UNDEFINED)
            if flag is not None and flag.where.any():
                found = undefined(wave, instruction.op, flag, message, flag.where)
                launch_of(wave).found(found)
