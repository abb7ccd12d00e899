"""Translation of IR with steps to code that calls a watcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tile.backends.interp.checks.sources import undefined_variable
from tile.backends.interp.checks.translate import CheckedCode, CheckedTranslator, translate_checked
from tile.backends.interp.code import BlockCode, Instruction, Rules, Run
from tile.checks import Check, Checks
from tile.ir.core import Block, Module, Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, debug

if TYPE_CHECKING:
    from tile.backends.interp.stepped.launch import SteppedLaunch
    from tile.backends.interp.wave import Wave


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
            if i.op.defn is debug.step
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
            if any(user.defn is debug.step for user in value.users)
        }


def _step(plain: Run) -> Run:
    def run(batch: Wave) -> None:
        _launch(batch).watcher.step(batch)

    return run


def _breakpoint(plain: Run) -> Run:
    def run(batch: Wave) -> None:
        _launch(batch).watcher.stop(batch)

    return run


def _print(plain: Run) -> Run:
    def run(batch: Wave, *values: Any) -> None:
        if not _launch(batch).watcher.muted:
            plain(batch, *values)

    return run


def _launch(batch: Wave) -> SteppedLaunch:
    return cast("SteppedLaunch", batch.launch)


_WATCHED: dict[OpDef, Callable[[Run], Run]] = {
    debug.step: _step,
    debug.breakpoint_: _breakpoint,
    debug.device_print: _print,
}
