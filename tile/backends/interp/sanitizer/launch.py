"""A run with checks: its translation, its executor and its launch.

The translator makes instructions that propagate poison, and those that check operands and collect
their faults. The executor checks the values that decide control flow. The launch has the state of
the checks (`SanitizerState`), and adds faults to a report or raises the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from tile.analysis.alias import module_aliases
from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.bytecode import Code, Instruction, Run
from tile.backends.interp.executor import Executor
from tile.backends.interp.fault_report import FaultCollector
from tile.backends.interp.launch import Launch
from tile.backends.interp.program_batch import Frame, ProgramBatch, StepResult
from tile.backends.interp.sanitizer.access import report_poison
from tile.backends.interp.sanitizer.happens_before import HappensBefore
from tile.backends.interp.sanitizer.poison import (
    Poisoned,
    PoisonKind,
    PoisonMask,
    plain_value,
    poison_of,
    with_poison,
)
from tile.backends.interp.sanitizer.poison_sources import checked_source
from tile.backends.interp.sanitizer.propagation import combining, propagated
from tile.backends.interp.sanitizer.rules import (
    CHECKED,
    check_alignment,
    claiming,
    without_poison,
    written_elements,
)
from tile.backends.interp.sanitizer.shadow_memory import (
    CheckedContext,
    SanitizerState,
    ShadowMemory,
    state_of,
)
from tile.backends.interp.translate import Rules, Translator, translate
from tile.backends.interp.values import RegisterValue, array_of
from tile.checks import Check, Checks
from tile.faults import Fault, FaultLog
from tile.ir.core import Operation
from tile.ir.effects import effects
from tile.ir.module import Module
from tile.ir.op_definition import Effect
from tile.ir.ops import arith, control, memory
from tile.ir.types import Pointer
from tile.transforms.descriptors_to_pointers import descriptors_to_pointers

ACCESSES = Effect.READ | Effect.WRITE
DECIDING = (PoisonKind.UNDEFINED, PoisonKind.WRAPPED)


class CheckedExecutor(Executor):
    """Reports branches and loops that an undefined or wrapped value decides.

    If faults are collected, the run continues with the number that is there: zero if undefined.

    A `for` with wrapped bounds runs a wrong number of iterations, which is always reported. The
    condition of an `if` or a `while` acts as a mask on the accesses inside. Without accesses inside
    it acts as the condition of a `select`: the results are poisoned as WRAPPED, and reported if
    they decide which memory is accessed.
    """

    def if_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        self.check_decision(batch, frame, instruction, instruction.op, "branches on a value")
        return super().if_(batch, frame, instruction)

    def deliver(
        self, batch: ProgramBatch, instruction: Instruction, values: list[RegisterValue]
    ) -> None:
        if values and instruction.op.defn is control.if_:
            values = _poison_selected(instruction.op, batch.frames[-1], instruction, values)
        super().deliver(batch, instruction, values)

    def condition(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        assert frame.instruction is not None
        assert frame.loop is not None
        loop = frame.instruction.op
        self.check_decision(batch, frame, instruction, loop, "ends a loop by a value")
        frame.loop.carried = _poison_selected(loop, frame, instruction, frame.loop.carried)
        return super().condition(batch, frame, instruction)

    def for_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        message = "counts from, to or in steps of a value"
        self.check_decision(batch, frame, instruction, None, message, bounds=3)
        return super().for_(batch, frame, instruction)

    def operands(self, frame: Frame, instruction: Instruction) -> list[RegisterValue]:
        values = super().operands(frame, instruction)
        if instruction.op.defn is control.for_:
            return _end_poisoned_loops(values)
        return values

    def check_decision(
        self,
        batch: ProgramBatch,
        frame: Frame,
        instruction: Instruction,
        guarded: Operation | None,
        message: str,
        bounds: int = 1,
    ) -> None:
        """Check the first operands, `bounds` in number.

        guarded: an operation for which a wrapped value is a fault only if it contains accesses.
        """
        for register in instruction.operands[:bounds]:
            value = frame.activation.read(register)
            if type(value) is not Poisoned:
                continue
            with state_of(batch).collector:
                for kind in DECIDING:
                    poison = poison_of(value, kind)
                    if poison is None or not poison.where.any():
                        continue
                    if kind is PoisonKind.UNDEFINED or guarded is None or _accesses(guarded):
                        wrong, op = poison.where, instruction.op
                        report_poison(batch, op, poison, message, wrong, kind=kind)


def _end_poisoned_loops(values: list[RegisterValue]) -> list[RegisterValue]:
    """Make a `for` run no iteration in programs in which one of its bounds is poisoned."""
    lower, upper, step, *carried = values
    masks = [poison_of(bound, kind) for bound in (lower, upper, step) for kind in DECIDING]
    wrong = [poison.where for poison in masks if poison is not None]
    if not wrong:
        return values
    first, last, by = map(array_of, (lower, upper, step))
    poisoned = reduce(np.logical_or, wrong)
    return [first, np.where(poisoned, first, last), np.where(poisoned, 1, by), *carried]


def _accesses(op: Operation) -> bool:
    return bool(effects(op) & ACCESSES)


def _poison_selected(
    op: Operation, frame: Frame, instruction: Instruction, values: list[RegisterValue]
) -> list[RegisterValue]:
    """Poison the results in the programs in which the condition that selects them wrapped."""
    poison = poison_of(frame.activation.read(instruction.operands[0]), PoisonKind.WRAPPED)
    if poison is None or _accesses(op):
        return values
    return [
        _add_wrapped(value, poison, result.type.rank)
        for value, result in zip(values, op.results, strict=True)
    ]


def _add_wrapped(value: RegisterValue, poison: PoisonMask, rank: int) -> RegisterValue:
    where = poison.where.reshape(-1, *(1,) * rank)
    masks = value.masks if isinstance(value, Poisoned) else {}
    existing = masks.get(PoisonKind.WRAPPED)
    combined = PoisonMask(where if existing is None else where | existing.where, poison.cause)
    return with_poison(plain_value(value), {**masks, PoisonKind.WRAPPED: combined})


@dataclass(frozen=True, eq=False)
class CheckedCode:
    """Code of a module with checks.

    `written` names the parameters through which it writes (None: it may write all memory).
    `acquires` is True if an atomic may order a program after another one. `min_element_bytes` is
    the least size of elements that pointers are cast to; None if there are no such casts.
    """

    code: Code
    checks: Checks
    written: frozenset[str] | None
    acquires: bool
    min_element_bytes: int | None


def translate_checked(
    module: Module,
    rules: Rules,
    checks: Checks,
    translator: Callable[..., CheckedTranslator] | None = None,
) -> CheckedCode:
    """Translate a module to code with checks; see `translate`.

    Descriptor accesses are expanded to pointer accesses first, which the checks handle.
    """
    module = module.clone()
    descriptors_to_pointers(module, simplify=False)
    code = translate(module, rules, partial(translator or CheckedTranslator, checks=checks))
    return CheckedCode(
        code,
        checks,
        _written_parameters(module),
        any(map(_acquires, module.walk())),
        _min_element_bytes(module),
    )


class CheckedTranslator(Translator):
    """Translates operations to instructions that propagate and check poison."""

    def __init__(self, rules: Rules, checks: Checks) -> None:
        super().__init__(rules)
        self.checks = checks

    def inner(self) -> CheckedTranslator:
        return CheckedTranslator(self.rules, self.checks)

    def run(self, op: Operation) -> Run:
        run = super().run(op)
        checked = CHECKED.get(op.defn)
        if checked is not None:
            return collect_faults(checked(op, run, self.checks))
        if op.defn.isolated:
            return combining(op, self.regions(op))
        if op.defn is arith.hint and Check.ASSUME in self.checks:
            run = claiming(op, run)
        if op.defn in self.rules and op.defn is not arith.bitcast:
            return without_poison(run)
        return propagated(op, checked_source(op, run, self.checks))


def collect_faults(run: Run) -> Run:
    """Return an instruction that reports its faults together, after it has run."""

    def instruction(batch: Any, *values: Any) -> Any:
        with state_of(batch).collector:
            return run(batch, *values)

    return instruction


def _written_parameters(module: Module) -> frozenset[str] | None:
    """Return the parameters through which a kernel writes; None if it may write anywhere."""
    kernel = module.kernel
    writes = module_aliases(module)[kernel.name].summary.writes
    if writes.unknown:
        return None
    return frozenset(v.name for index, v in enumerate(kernel.args) if index in writes.parameters)


def _acquires(op: Operation) -> bool:
    if op.defn not in (memory.atomic_rmw, memory.atomic_cas):
        return False
    shared = op["scope"] is not memory.Scope.PROGRAM
    return bool(op.result.uses) and op["order"].acquires and shared


def _min_element_bytes(module: Module) -> int | None:
    """Return the size in bytes of the smallest element that a pointer is cast to; None if none."""
    sizes = [
        op.result.type.element.pointee.itemsize
        for op in module.walk()
        if op.defn is arith.bitcast and isinstance(op.result.type.element, Pointer)
    ]
    return min(sizes, default=None)


class CheckedLaunch(CheckedContext, Launch):
    """A run of a kernel with checks; `report` collects its faults, or the first one is raised."""

    executor = CheckedExecutor

    def __init__(
        self,
        code: CheckedCode,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        report: FaultLog | None,
    ) -> None:
        super().__init__(code.code, grid, arguments)
        self.report = report
        self.state = SanitizerState(
            code.checks, arguments, FaultCollector(report, self.commit_faults)
        )
        if Check.RACE in code.checks:
            self.state.order = HappensBefore(self.programs) if code.acquires else None
            shadow = ShadowMemory(self.memory, code.written, code.min_element_bytes)
            self.state.shadow = shadow if shadow.regions else None
        if Check.UNDEF in code.checks:
            self.state.uninitialized = written_elements(self.memory.buffers)

    def report_fault(self, fault: Fault) -> None:
        """Take a fault; while an operation runs, with others of the same operation."""
        if self.state.collector.faults is None:
            self.commit_faults([fault])
        else:
            self.state.collector.faults.append(fault)

    def commit_faults(self, faults: Sequence[Fault]) -> None:
        """Add the faults of an operation to the report, or raise the first one.

        The notes of a raised fault name the other kinds of faults.
        """
        if self.report is not None:
            for fault in faults:
                self.report.add(fault)
            return
        first_fault = faults[0]
        others = {
            fault.check: fault for fault in reversed(faults) if fault.check != first_fault.check
        }
        notes = (f"also {other.check}: {other.message}" for other in others.values())
        super().report_fault(replace(first_fault, notes=(*first_fault.notes, *notes)))

    def run(self) -> None:
        """Run all programs. Raises the first fault, unless a report takes it."""
        if Check.ASSUME in self.state.checks:
            check_alignment(self, self.state.arguments)
        super().run()
