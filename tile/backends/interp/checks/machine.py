"""An executor that checks the values that decide control flow."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from tile.backends.interp.checks.access import launch_of, undefined_fault, wrapped_fault
from tile.backends.interp.checks.marked import (
    Mark,
    Poisoned,
    PoisonMask,
    bare,
    flag_of,
    with_poison,
)
from tile.backends.interp.code import Instruction
from tile.backends.interp.machine import Executor, StepResult
from tile.backends.interp.values import Held, array_of
from tile.backends.interp.wave import Frame, Wave
from tile.ir.core import Operation
from tile.ir.effects import effects
from tile.ir.opdef import Effect
from tile.ir.ops import control

ACCESSES = Effect.READ | Effect.WRITE
DECIDING = (Mark.UNDEFINED, Mark.WRAPPED)


class CheckedExecutor(Executor):
    """Reports branches and loops that an undefined or wrapped value decides.

    If faults are collected, the run continues with the number that is there: zero if undefined.

    A `for` with wrapped bounds runs a wrong number of iterations, which is always reported. The
    condition of an `if` or a `while` acts as a mask on the accesses inside. Without accesses inside
    it acts as the condition of a `select`: the results are poisoned as WRAPPED, and reported if
    they decide which memory is accessed.
    """

    def if_(self, batch: Wave, frame: Frame, instruction: Instruction) -> StepResult:
        self.check_decision(batch, frame, instruction, instruction.op, "branches on a value")
        return super().if_(batch, frame, instruction)

    def deliver(self, batch: Wave, instruction: Instruction, values: list[Held]) -> None:
        if values and instruction.op.defn is control.if_:
            values = _poison_selected(instruction.op, batch.frames[-1], instruction, values)
        super().deliver(batch, instruction, values)

    def condition(self, batch: Wave, frame: Frame, instruction: Instruction) -> StepResult:
        assert frame.instruction is not None
        assert frame.loop is not None
        loop = frame.instruction.op
        self.check_decision(batch, frame, instruction, loop, "ends a loop by a value")
        frame.loop.carried = _poison_selected(loop, frame, instruction, frame.loop.carried)
        return super().condition(batch, frame, instruction)

    def for_(self, batch: Wave, frame: Frame, instruction: Instruction) -> StepResult:
        message = "counts from, to or in steps of a value"
        self.check_decision(batch, frame, instruction, None, message, bounds=3)
        return super().for_(batch, frame, instruction)

    def operands(self, frame: Frame, instruction: Instruction) -> list[Held]:
        values = super().operands(frame, instruction)
        if instruction.op.defn is control.for_:
            return _end_poisoned_loops(values)
        return values

    def check_decision(
        self,
        batch: Wave,
        frame: Frame,
        instruction: Instruction,
        guarded: Operation | None,
        message: str,
        bounds: int = 1,
    ) -> None:
        """Check the first operands, `bounds` in number.

        guarded: an operation for which a wrapped value is a fault only if it contains accesses.
        """
        launch = launch_of(batch)
        for register in instruction.operands[:bounds]:
            value = frame.activation.read(register)
            if type(value) is not Poisoned:
                continue
            with launch.fault_collector:
                for kind, report in (
                    (Mark.UNDEFINED, undefined_fault),
                    (Mark.WRAPPED, wrapped_fault),
                ):
                    poison = flag_of(value, kind)
                    if poison is None or not poison.where.any():
                        continue
                    if kind is Mark.UNDEFINED or guarded is None or _accesses(guarded):
                        make = partial(report, batch, instruction.op, poison, message)
                        launch.report_faults(batch, poison.where, make)


def _end_poisoned_loops(values: list[Held]) -> list[Held]:
    """Make a `for` run no iteration in programs in which one of its bounds is poisoned."""
    lower, upper, step, *carried = values
    masks = [flag_of(bound, kind) for bound in (lower, upper, step) for kind in DECIDING]
    wrong = [poison.where for poison in masks if poison is not None]
    if not wrong:
        return values
    first, last, by = map(array_of, (lower, upper, step))
    poisoned = reduce(np.logical_or, wrong)
    return [first, np.where(poisoned, first, last), np.where(poisoned, 1, by), *carried]


def _accesses(op: Operation) -> bool:
    return bool(effects(op) & ACCESSES)


def _poison_selected(
    op: Operation, frame: Frame, instruction: Instruction, values: list[Held]
) -> list[Held]:
    """Poison the results in the programs in which the condition that selects them wrapped."""
    poison = flag_of(frame.activation.read(instruction.operands[0]), Mark.WRAPPED)
    if poison is None or _accesses(op):
        return values
    return [
        _add_wrapped(value, poison, result.type.rank)
        for value, result in zip(values, op.results, strict=True)
    ]


def _add_wrapped(value: Held, poison: PoisonMask, rank: int) -> Held:
    where = poison.where.reshape(-1, *(1,) * rank)
    masks = value.masks if isinstance(value, Poisoned) else {}
    existing = masks.get(Mark.WRAPPED)
    combined = PoisonMask(where if existing is None else where | existing.where, poison.cause)
    return with_poison(bare(value), {**masks, Mark.WRAPPED: combined})
