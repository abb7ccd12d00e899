"""Strength reduction of pointers in loops with wgmma: additions only, no multiplications.

IMAD.WIDE competes with HGMMA for register-file ports: each one costs 14 to 36 of the 1060 cycles of
a 128x256x64 f16 iteration. LLVM and ptxas form IMAD.WIDE whenever they can prove that an address is
a base plus a 32-bit index times the element size, even if the product was hoisted out of the loop.
In such loops the index is therefore an opaque value before it is scaled by a shift, which LLVM
cannot see through and ptxas leaves a shift.

All pointers of a tile advance by the same amount, so one register can hold that amount, and every
iteration adds it to each pointer. Left alone, LLVM and ptxas choose other forms, such as a register
for each pointer that advances by a constant. The start addresses and the constant steps are
therefore opaque values as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass
from tile.ir.types import I64, Fragment, Pointer
from tile.simt import ops


@module_pass("strength-reduce-pointers", before=Level.THREAD)
def strength_reduce_pointers(module: Module) -> None:
    """Advance pointers in loops with wgmma by bytes, with steps that are opaque to LLVM and ptxas.

        %r = for .. iter(%p = %start, %acc = ..) {     %o = opaque %start
          %d = wgmma %a, %b, %acc                      %s = opaque %128
          %q = addptr %p, %32 {stride = 4}             %b = frag_splat %s
          %i = addptr %base, %index {stride = 4}       %r = for .. iter(%p = %o, %acc = ..) {
          yield %q, %d                                   %d = wgmma %a, %b, %acc
        }                                                %q = ptradd %p, %b
                                                         %w = cast %index {to = i64}
                                                         %t = shl (opaque %w), %2
                                                         %i = ptradd %base, %t
                                                         yield %q, %d
                                                       }

    Bytes that do not change in the loop are computed before it.
    """
    for function in module:
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            if any(op.has_trait(Trait.IN_FLIGHT) for op in loop.regions[0]):
                _Loop(function, loop).run()


class _Loop:
    """A `for` with wgmma, and the tiles of pointers that it carries."""

    def __init__(self, function: Function, loop: Operation) -> None:
        self.function = function
        self.loop = loop
        (self.region,) = loop.regions
        self.carried = [
            index for index, value in enumerate(loop.results) if _is_tile_of_pointers(value)
        ]
        self.blocks = {block for op in loop.walk() for block in op.regions}

    def run(self) -> None:
        build = Builder.before(self.loop)
        for index in self.carried:
            start = self.loop.inputs[3 + index]
            self.loop.set_operand(3 + index, build(ops.thread.opaque, start))
        for op in list(_addptrs(self.region)):
            self.advance_by_bytes(op)

    def advance_by_bytes(self, op: Operation) -> None:
        """Replace an `addptr`, unless its step is a constant and its pointer is not carried."""
        pointer, offset = op.inputs
        step = _constant(offset)
        if step is None:
            bytes_ = self.scaled(op)
        elif step and pointer in [self.region.args[1 + index] for index in self.carried]:
            bytes_ = self.constant_step(op, step * op["stride"])
        else:
            return
        op.replace_by([Builder.before(op)(ops.thread.ptradd, pointer, bytes_)])
        op.erase()

    def constant_step(self, op: Operation, step: int) -> Value:
        """Return an opaque constant, which the function computes at its start."""
        first, ty = self.function.body.first, op.result.type
        assert first is not None and isinstance(ty, Fragment)
        build = Builder.before(first)
        with build.at(op.loc):
            opaque = build(ops.thread.opaque, build.constant(step, I64))
            return build(ops.thread.frag_splat, opaque, count=ty.count)

    def scaled(self, op: Operation) -> Value:
        """Return the offset of an `addptr` in bytes, computed before the loop if possible."""
        offset, shift = op.inputs[1], op["stride"].bit_length() - 1
        before = op if offset.block in self.blocks else self.loop
        build = Builder.before(before)
        with build.at(op.loc):
            if offset.type.element.bits < I64.bits:
                offset = build(arith.cast, offset, to=I64)
            if not shift:
                return offset
            offset = build(ops.thread.opaque, offset)
            return build(arith.shl, offset, build.constant(shift, offset.type))


def _is_tile_of_pointers(value: Value) -> bool:
    return isinstance(value.type, Fragment) and isinstance(value.type.of, Pointer)


def _addptrs(block: Block) -> Iterator[Operation]:
    """Yield every `addptr` in a block, except those in loops inside it."""
    for op in block:
        if op.defn is memory.addptr:
            yield op
        elif op.defn is not control.for_:
            for region in op.regions:
                yield from _addptrs(region)


def _constant(value: Value) -> int | None:
    """Return the number that all registers of a value have, or None."""
    scalar = ops.thread.splatted(value)
    number = constant_of(value if scalar is None else scalar)
    return None if number is None else int(number)
