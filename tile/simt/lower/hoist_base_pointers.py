"""Pointers as a base that is computed once, and a small offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass
from tile.ir.types import Fragment, number_of
from tile.simt import ops

# A base takes two registers for each vector access of a thread.
MOST_ACCESSES = 2


@module_pass("hoist-base-pointers", before=Level.THREAD)
def hoist_base_pointers(module: Module) -> None:
    """Add what a loop does not change to a pointer first, before the loop.

    ptxas does not know that sums of 32-bit indices do not overflow: it multiplies each of them by
    the size of an element. In the language a sum that overflows on the way to an address is an
    error.

        for %i = .. {                                  %b = addptr %p, %lanes
          %k = add (frag_splat %i), %lanes             for %i = .. {
          %q = addptr %p, %k                             %q = addptr %b, (frag_splat %i)
          %x = load %q {vector = 4}                      %x = load %q {vector = 4}

    Loops with dots have passes of their own (`carry-base-pointers`, `strength-reduce-pointers`).
    """
    for function in module:
        for pointers in _groups(function).values():
            _rewrite(pointers)


@dataclass(frozen=True)
class _Sum:
    """An `addptr` as a sum.

    `fixed` does not change in the loop, `varying` are scalars that do, and `number` is constant.
    """

    op: Operation
    loop: Operation
    fixed: tuple[Value, ...]
    varying: tuple[Value, ...]
    number: int

    @property
    def key(self) -> tuple[object, ...]:
        return self.loop, self.op.inputs[0], self.fixed


def _groups(function: Function) -> dict[tuple[object, ...], list[_Sum]]:
    """Return the pointers that have the same base in a loop."""
    groups: dict[tuple[object, ...], list[_Sum]] = defaultdict(list)
    for op in function.walk():
        if op.defn is memory.addptr and _is_narrow(op):
            pointer = _sum_of(op)
            if pointer is not None:
                groups[pointer.key].append(pointer)
    return groups


def _is_narrow(op: Operation) -> bool:
    """Return True for the pointers of a few accesses."""
    ty = op.result.type
    return isinstance(ty, Fragment) and all(
        user.defn in (memory.load, memory.store) and ty.count <= MOST_ACCESSES * user["vector"]
        for user in op.result.users
    )


def _sum_of(op: Operation) -> _Sum | None:
    pointer, offset = op.inputs
    element = number_of(offset.type)
    loop = next((outer for outer in op.ancestors() if outer.has_trait(Trait.LOOP)), None)
    if not element.is_int_signed() or loop is None or not _is_plain(loop, pointer):
        return None
    number, fixed, varying = 0, [], []
    for term in _terms(offset):
        scalar = ops.thread.splatted(term)
        constant = constant_of(term if scalar is None else scalar)
        if constant is not None:
            number += int(constant)
        elif not loop.defines(term):
            fixed.append(term)
        elif scalar is not None:
            varying.append(scalar)
        else:
            return None
    fits = element.min_value <= number <= element.max_value
    if not (fits and fixed and varying):
        return None
    return _Sum(op, loop, tuple(fixed), tuple(varying), number)


def _is_plain(loop: Operation, pointer: Value) -> bool:
    """Return True for a `for` without dots that does not change a pointer."""
    dots = any(op.has_trait(Trait.DOT) for op in loop.walk())
    return loop.defn is control.for_ and not dots and not loop.defines(pointer)


def _terms(offset: Value) -> Iterator[Value]:
    """Yield the terms of a sum."""
    if offset.op is not None and offset.op.defn is arith.add:
        for operand in offset.op.inputs:
            yield from _terms(operand)
    else:
        yield offset


def _rewrite(pointers: list[_Sum]) -> None:
    """Compute the base of pointers once."""
    first = pointers[0]
    stride = first.op["stride"]
    build = Builder.before(first.loop)
    with build.at(first.op.loc):
        base = first.op.inputs[0]
        for term in sorted(first.fixed, key=_is_lanes):
            base = build(memory.addptr, base, term, stride=stride)
    for pointer in pointers:
        op, build = pointer.op, Builder.before(pointer.op)
        with build.at(op.loc):
            op.replace_by([build(memory.addptr, base, _offset(build, pointer), stride=stride)])


def _is_lanes(term: Value) -> bool:
    """Return True for a term that is not the same in all registers, which is added last."""
    return ops.thread.splatted(term) is None


def _offset(build: Builder, pointer: _Sum) -> Value:
    """Return what is added to the base."""
    ty = pointer.op.inputs[1].type
    assert isinstance(ty, Fragment)
    terms = list(pointer.varying)
    if pointer.number:
        terms.append(build.constant(pointer.number, number_of(ty)))
    scalar = reduce(lambda x, y: build(arith.add, x, y), terms)
    return build(ops.thread.frag_splat, scalar, count=ty.count)
