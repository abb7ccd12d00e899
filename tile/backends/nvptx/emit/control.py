"""Loops with what NVIDIA GPUs need in addition: packed accumulators, stage counters, hints."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.shared import has_wgmma, stage_counters
from tile.backends.nvptx.emit.vectors import pack, packed_types, unpack
from tile.codegen.llvm import control as llvm
from tile.codegen.llvm.function_builder import Registers, Rule, types_of
from tile.ir.core import Operation, Value
from tile.ir.effects import may_hang_silently
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import control, memory
from tile.ir.types import Fragment, count_of
from tile.simt import ops


class _CarriedValues(llvm.CarriedValues):
    """Values of a `for`, of which some are packed, and counters of stages.

    Bytes are packed four to a 32-bit register, and 16-bit elements that an iteration loads for the
    next one two, as loads have them. So are 16-bit accumulators of wgmma, as wgmma has them. With a
    phi for each element, every iteration would unpack and repack them, and would wait for its loads
    and the wgmmas in flight to do so. `packed` are the positions of these values.
    """

    builder: FunctionBuilder

    def __init__(self, builder: FunctionBuilder, loop: Operation) -> None:
        super().__init__(builder)
        self.loop = loop
        wide = (8, 16) if has_wgmma(loop) else (8,)
        yielded = zip(loop.results, loop.regions[0].yielded, strict=True)
        narrow = (
            number
            for number, (value, source) in enumerate(yielded)
            if _fills(value, (8, 16) if _is_loaded(source) else wide)
        )
        self.packed = frozenset(narrow)
        self.counters = stage_counters(loop)
        self.first = [counter.first(builder) for counter in self.counters]

    def types(self, values: Sequence[Value]) -> list[str]:
        return [ty for number, value in enumerate(values) for ty in self._types(number, value)]

    def _types(self, number: int, value: Value) -> list[str]:
        if number not in self.packed:
            return types_of([value])
        return packed_types(value.type.element, count_of(value.type))

    def flat(self, values: Sequence[Value]) -> Registers:
        registers: Registers = []
        for number, value in enumerate(values):
            own = self.builder.of(value)
            if number in self.packed:
                own = [register for _, register in pack(self.builder, value.type.element, own)]
            registers += own
        return registers

    def assign(self, values: Sequence[Value], registers: Registers) -> None:
        source = iter(registers)
        for number, value in enumerate(values):
            own = [next(source) for _ in self._types(number, value)]
            if number in self.packed:
                own = unpack(self.builder, value.type.element, own)
            self.builder.values[value] = own

    def further(self) -> list[tuple[str, str]]:
        return [("i32", first) for first in self.first]

    def begin(self, registers: Registers) -> None:
        for counter, stage in zip(self.counters, registers, strict=True):
            iteration = self.builder.scalar(counter.value)
            self.builder.stage_counters[iteration, counter.stages] = stage
        keep_loop(self.builder, self.loop)

    def following(self, registers: Registers) -> Registers:
        counted = zip(self.counters, registers, strict=True)
        return [counter.next(self.builder, stage) for counter, stage in counted]


def _fills(value: Value, widths: Sequence[int]) -> bool:
    """Return True for elements of such widths in bits that fill 32-bit registers."""
    ty = value.type
    if not isinstance(ty, Fragment) or ty.element.storage_bits not in widths:
        return False
    return ty.element.storage_bits * ty.count % 32 == 0


def _is_loaded(value: Value) -> bool:
    """Return True if a value is as an earlier iteration or a load has it, perhaps reordered.

    Elements that are loaded one by one have registers of their own: packing would wait for them.
    """
    op = value.op
    while op is not None and op.defn is ops.thread.frag_shuffle:
        op = op.inputs[0].op
    if op is None or op.defn is ops.thread.ldmatrix:
        return True
    return op.defn in (memory.load, ops.thread.shared_load) and op["vector"] > 1


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
