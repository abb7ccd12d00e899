"""Find uses and writes of registers of wgmmas in flight: a static check of a THREAD module.

*Accumulators* are used only after the wait that completes their wgmma. Waits are data dependences:
an accumulator flows from its wgmma through a `wgmma_wait` to its uses, also across loops and
branches. A forward dataflow analysis therefore finds every use without a wait.

*Operands* in registers are read until the wgmma is complete (PTX ISA, "Register fragments and
shared memory matrices"). A value of the IR has no registers, but it becomes some, and these are
written whenever the operation that computes it is executed, or the iteration ends that carries it.
Neither may happen in the next iteration while a wgmma of this one reads them. Operands of 32 bits
are rounded where the wgmma stands, to registers that are its own.

For each accumulator and operand of a wgmma that may be in flight, the analysis tracks its age: the
fewest wgmmas that may have started since. A wait that leaves more wgmmas pending than that does not
complete it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.errors import WgmmaInFlightError
from tile.ir.core import Block, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import control
from tile.ir.types import F32, Fragment
from tile.simt import ops

# The fewest wgmmas that have started since the one of a value.
Ages = dict[Value, int]


def check_wgmma_registers(module: Module) -> None:
    """Raise `WgmmaInFlightError` for a use or write of registers that a wgmma in flight has."""
    waits = [op["pending"] for op in module.walk() if op.defn is ops.wgmma.wgmma_wait]
    max_pending = max(waits, default=0)
    if any(op.defn is ops.wgmma.wgmma for op in module.walk()):
        for function in module:
            _AgeAnalysis(max_pending).block(function.body, {}, {})


class _AgeAnalysis:
    """The analysis of a function whose waits leave at most `max_pending` wgmmas in flight.

    Both mappings change from operation to operation: `ages` has accumulators, `reads` operands.
    """

    def __init__(self, max_pending: int) -> None:
        self.max_pending = max_pending

    def block(self, block: Block, ages: Ages, reads: Ages) -> None:
        for op in block:
            self.check(op, ages)
            for value in op.results:
                self.check_write(value, reads, op)
            if op.defn is ops.wgmma.wgmma:
                self.start(op, ages, reads)
            elif op.defn is ops.wgmma.wgmma_wait:
                self.complete(op, ages, reads)
            elif op.has_trait(Trait.LOOP):
                self.loop(op, ages, reads)
            elif op.defn is control.if_:
                self.branch(op, ages, reads)

    def check(self, op: Operation, ages: Ages) -> None:
        for index, value in enumerate(op.operands):
            if value is None or value not in ages or self.may_use(op, index):
                continue
            raise WgmmaInFlightError(
                f"`{op.name}` uses a wgmma accumulator before its wgmma_wait",
                loc=op.loc,
                notes=[f"the value is {value}"],
            )

    def may_use(self, op: Operation, index: int) -> bool:
        if op.defn is ops.wgmma.wgmma:
            return index == 2
        passes_on = op.has_trait(Trait.LOOP) or op.defn is control.yield_
        return passes_on or op.defn is ops.wgmma.wgmma_wait

    def check_write(self, value: Value, reads: Ages, op: Operation) -> None:
        if value in reads:
            raise WgmmaInFlightError(
                f"`{op.name}` writes registers that a wgmma reads before its wgmma_wait",
                loc=op.loc,
                notes=[f"the value is {value}"],
            )

    def start(self, op: Operation, ages: Ages, reads: Ages) -> None:
        for each in (ages, reads):
            each.update((value, min(age + 1, self.max_pending)) for value, age in each.items())
        ages[op.result] = 0
        operand = op.inputs[0]
        if isinstance(operand.type, Fragment):
            reads[op.result if operand.type.element is F32 else operand] = 0

    def complete(self, op: Operation, ages: Ages, reads: Ages) -> None:
        value, pending = op.inputs[0], op["pending"]
        if value in ages and ages[value] < pending:
            ages[op.result] = ages[value]
        for operand in [operand for operand, age in reads.items() if age >= pending]:
            del reads[operand]

    def loop(self, op: Operation, ages: Ages, reads: Ages) -> None:
        """Iterate to a fixed point: ages only decrease, and values in flight only get more."""
        skipped = 3 if op.defn is control.for_ else 0
        carried = [ages.get(value) for value in op.inputs[skipped:]]
        while True:
            last_ends: list[
                int | None
            ] = []  # ages at the end of the last region, which is the body
            at_end = dict(reads)
            for region in op.regions:
                inner = dict(ages)
                args = region.args[1:] if op.defn is control.for_ else region.args
                _set(args, carried, inner)
                self.block(region, inner, at_end)
                last_ends = [inner.get(value) for value in region.yielded]
            self.check_carried(region, args, at_end)
            joined, all_reads = _least(carried, last_ends), _joined(reads, at_end)
            if joined == carried and all_reads == reads:
                break
            carried = joined
            reads.update(all_reads)
        _set(op.results, carried, ages)

    def check_carried(self, region: Block, args: Sequence[Value], reads: Ages) -> None:
        """Check the write of what an iteration hands on to the arguments of the next one."""
        for value, arg in zip(region.yielded, args, strict=False):
            if value is not arg:
                self.check_write(arg, reads, region.end)

    def branch(self, op: Operation, ages: Ages, reads: Ages) -> None:
        ends, before = [], dict(reads)
        reads.clear()
        for region in op.regions:
            inner, inner_reads = dict(ages), dict(before)
            self.block(region, inner, inner_reads)
            ends.append([inner.get(value) for value in region.yielded])
            reads.update(_joined(reads, inner_reads))
        _set(op.results, _least(*ends), ages)


def _set(values: Sequence[Value], ages: Sequence[int | None], into: Ages) -> None:
    for value, age in zip(values, ages, strict=False):
        if age is not None:
            into[value] = age


def _joined(first: Ages, second: Ages) -> Ages:
    """Return what is in flight on either of two paths, with the smaller age."""
    return {
        value: min(each[value] for each in (first, second) if value in each)
        for value in {**first, **second}
    }


def _least(first: Sequence[int | None], second: Sequence[int | None]) -> list[int | None]:
    """Return the elementwise minimum; None, for a value not in flight, counts as infinite."""
    both = zip(first, second, strict=False)
    return [min((x for x in pair if x is not None), default=None) for pair in both]
