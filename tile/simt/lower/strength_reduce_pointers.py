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
from dataclasses import dataclass, replace
from functools import reduce

from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass
from tile.ir.types import I64, Fragment, Pointer, number_of
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

    Bytes that do not change in the loop are computed before it. So are pointers, if an index is a
    sum of what does not change in the loop and of a number that all registers share:

        %x = add %rows, (frag_splat %k)              %o = opaque (ptradd %base, %bytes_of_rows)
        %p = addptr %base, %x {stride = 4}           %p = ptradd %o, (frag_splat %bytes_of_k)
    """
    for function in module:
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            if any(op.has_trait(Trait.IN_FLIGHT) for op in loop.regions[0]):
                _Loop(function, loop).run()


@dataclass(frozen=True)
class _Term:
    """A term of an offset: registers of a fragment from before the loop, or a scalar in it."""

    value: Value
    registers: tuple[tuple[int, ...], ...] = ()  # of `frag_shuffle`, one after the other

    @property
    def uniform(self) -> bool:
        return not isinstance(self.value.type, Fragment)

    def picked(self, registers: tuple[int, ...]) -> _Term:
        """Return the term of some registers of the sum."""
        if self.uniform:
            return self
        return replace(self, registers=(*self.registers, registers))


class _Loop:
    """A `for` with wgmma, and the tiles of pointers that it carries."""

    def __init__(self, function: Function, loop: Operation) -> None:
        self.function = function
        self.loop = loop
        (self.region,) = loop.regions
        self.carried = [
            index for index, value in enumerate(loop.results) if _is_tile_of_pointers(value)
        ]

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
            terms = () if self.loop.defines(pointer) else self.terms(offset)
            if len({term.uniform for term in terms}) == 2:
                pointer, bytes_ = self.separated(op, terms)
            else:
                bytes_ = self.scaled(op)
        elif step and pointer in [self.region.args[1 + index] for index in self.carried]:
            bytes_ = self.constant_step(op, step * op["stride"])
        else:
            return
        op.replace_by([Builder.before(op)(ops.thread.ptradd, pointer, bytes_)])

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
        offset = op.inputs[1]
        build = Builder.before(op if self.loop.defines(offset) else self.loop)
        with build.at(op.loc):
            return _bytes_of(build, _widened(build, offset), op["stride"])

    def terms(self, offset: Value) -> tuple[_Term, ...]:
        """Return the terms of a fragment of offsets; none if it is not such a sum."""
        if not self.loop.defines(offset):
            return (_Term(offset),)
        op, scalar = offset.op, ops.thread.splatted(offset)
        if scalar is not None:
            return (_Term(scalar),)
        if op is not None and op.defn is arith.add and _adds_up(offset):
            parts = [self.terms(operand) for operand in op.inputs]
            return sum(parts, ()) if all(parts) else ()
        if op is not None and op.defn is ops.thread.frag_shuffle and len(op.inputs) == 1:
            return tuple(term.picked(op["registers"]) for term in self.terms(op.inputs[0]))
        return ()

    def separated(self, op: Operation, terms: tuple[_Term, ...]) -> tuple[Value, Value]:
        """Return the pointers that do not change in the loop, and the bytes to add in it."""
        before, build = Builder.before(self.loop), Builder.before(op)
        pointer, ty = op.inputs[0], op.result.type
        assert isinstance(ty, Fragment)
        with before.at(op.loc), build.at(op.loc):
            fixed = [_term_of(before, term) for term in terms if not term.uniform]
            offset = reduce(lambda x, y: before(arith.add, x, y), fixed)
            pointer = before(ops.thread.ptradd, pointer, _bytes_of(before, offset, op["stride"]))
            scalars = [_widened(build, term.value) for term in terms if term.uniform]
            shared = reduce(lambda x, y: build(arith.add, x, y), scalars)
            bytes_ = _bytes_of(build, shared, op["stride"])
            return (
                before(ops.thread.opaque, pointer),
                build(ops.thread.frag_splat, bytes_, count=ty.count),
            )


def _adds_up(offset: Value) -> bool:
    """Return True if a sum is that of its terms in 64 bits.

    Signed sums on the way to an address do not overflow in a correct program.
    """
    element = number_of(offset.type)
    return element.is_int_signed() or element.bits == I64.bits


def _term_of(build: Builder, term: _Term) -> Value:
    """Return the registers of a term in 64 bits."""
    value = term.value
    for registers in term.registers:
        value = build(ops.thread.frag_shuffle, value, registers=registers)
    return _widened(build, value)


def _widened(build: Builder, offset: Value) -> Value:
    narrow = offset.type.element.bits < I64.bits
    return build(arith.cast, offset, to=I64) if narrow else offset


def _bytes_of(build: Builder, offset: Value, stride: int) -> Value:
    """Return offsets of 64 bits in bytes, by a shift that no compiler sees through."""
    shift = stride.bit_length() - 1
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
