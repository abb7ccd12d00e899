"""Loops with what NVIDIA GPUs need in addition: packed accumulators, stage counters, hints."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.stage_counters import StageCounters
from tile.backends.nvptx.emit.vectors import LoopCarried
from tile.codegen.llvm import control as llvm
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.ir.core import OpDef, Operation, Trait, Value
from tile.ir.effects import may_hang_silently
from tile.ir.ops import control


class _CarriedValues(llvm.CarriedValues):
    """Values of a `for`, of which some are packed, and counters of stages."""

    builder: FunctionBuilder

    def __init__(self, builder: FunctionBuilder, loop: Operation) -> None:
        super().__init__(builder)
        self.loop = loop
        self.packing = LoopCarried.of(loop)
        self.counters = StageCounters.of(loop)

    def types(self, values: Sequence[Value]) -> list[str]:
        return self.packing.types(values)

    def flat(self, values: Sequence[Value]) -> Registers:
        return self.packing.flat(self.builder, values)

    def assign(self, values: Sequence[Value], registers: Registers) -> None:
        self.packing.assign(self.builder, values, registers)

    def further(self) -> list[tuple[str, str]]:
        return list(zip(self.counters.types, self.counters.first, strict=True))

    def begin(self, registers: Registers) -> None:
        self.counters.assign(self.builder, registers)
        keep_loop(self.builder, self.loop)

    def following(self, registers: Registers) -> Registers:
        return self.counters.next(self.builder, registers)


def for_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a loop; see `tile.codegen.llvm.control`."""
    llvm.for_(builder, op, _CarriedValues(builder, op), _unroll_hint(builder, op))


def while_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a loop; see `tile.codegen.llvm.control`."""
    llvm.while_(builder, op, lambda: keep_loop(builder, op))


def _unroll_hint(builder: FunctionBuilder, op: Operation) -> str:
    """Keep ptxas from unrolling loops of matrix instructions, which it does many times over."""
    if any(inner.has_trait(Trait.TENSOR_CORE) for inner in op.regions[0]):
        return f", !llvm.loop !{builder.module.no_unroll_node()}"
    return ""


def keep_loop(builder: FunctionBuilder, loop: Operation) -> None:
    """Put a side effect in a loop that may run forever without one.

    ptxas removes such a loop, although nothing in PTX permits it to assume that loops end. A warp
    barrier in a converged warp is the cheapest of what makes ptxas (13.0) keep the loop; a branch
    that is never taken does not, since ptxas unswitches the loop. Loop conditions are equal in all
    threads of a program, so all lanes reach the barrier.
    """
    if may_hang_silently(loop):
        builder.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))


RULES: dict[OpDef, Rule] = {**llvm.RULES, control.for_: for_, control.while_: while_}
