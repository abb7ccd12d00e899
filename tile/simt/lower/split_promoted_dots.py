"""Split wgmmas whose results threads add up, where a thread lacks registers for a whole result.

Such a wgmma starts from zero (`max_num_imprecise_acc`, or a scale for each block of k), so that a
thread holds two tiles of sums. A part of the columns at a time takes half of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.analysis.liveness import liveness
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of, is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control
from tile.ir.passes import module_pass
from tile.ir.shared_type import shared_of
from tile.ir.types import Fragment, count_of
from tile.simt import ops
from tile.simt.layouts.mma_fragments import MmaShape
from tile.simt.lower.split_dot_chains import FragmentSlices, is_registerwise
from tile.simt.ops.shared import part_layout
from tile.simt.ops.wgmma import wgmma_sizes
from tile.simt.schedule.resources import Resources, pressure
from tile.simt.target import GENERIC, SimtTarget

PARTS = 2
LEAST_COLUMNS = 64  # of a part: narrower wgmmas read more of `a` than they multiply


@module_pass("split-promoted-dots", before=Level.THREAD)
def split_promoted_dots(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Split wgmmas that start from zero into parts of columns if a thread would spill otherwise.

    The sums of one part are complete, and added to the accumulator, before the next is multiplied.

        %r = wgmma %a, %b, %zero                  %b0 = local_part %b {number = 0, ..}
        %s = wgmma_wait %r                        %r0 = wgmma %a, %b0, %z
        mbarrier_arrive ..                        %s0 = wgmma_wait %r0
        %t = add %acc, %s                         %acc0 = frag_shuffle %acc {..}
        yield %t                                  %t0 = add %acc0, %s0
                                                  ..
                                                  mbarrier_arrive ..
                                                  %t = frag_shuffle %t0, %t1 {..}
                                                  yield %t
    """
    resources = Resources(target)
    for function in module:
        loops = [op for op in function.walk() if op.has_trait(Trait.LOOP)]
        sums = {loop: _sums(loop) for loop in loops}
        live = liveness(function) if any(sums.values()) else None
        if live is not None:
            short = [loop for loop in loops if resources.would_spill(pressure(loop, live, target))]
            for each in [each for loop in short for each in sums[loop]]:
                each.split()


def _sums(loop: Operation) -> list[_AddedDot]:
    dots = [op for op in loop.regions[-1] if op.defn is ops.wgmma.wgmma]
    return [each for each in map(_added, dots) if each is not None]


@dataclass(frozen=True)
class _AddedDot:
    """A wgmma from zero, the wait for it, and the operations that add up its result."""

    dot: Operation
    wait: Operation
    chain: Sequence[Operation]
    before: Sequence[Operation]  # what the chain needs and stands after the wait

    def split(self) -> None:
        for op in self.before:
            op.move_before(self.wait)
        build = Builder.before(self.wait)
        count = count_of(self.dot.result.type) // PARTS
        slices = FragmentSlices(build, ())
        results = []
        for number in range(PARTS):
            registers = tuple(range(number * count, (number + 1) * count))
            values = {self.wait.result: self._multiplied(build, number, count)}
            for op in self.chain:
                operands = [
                    values[value] if value in values else slices.of(value, registers)
                    for value in op.inputs
                ]
                ty = Fragment(count, op.result.type.element)
                values[op.result] = build.copy(op, operands, [ty]).result
            results.append(values[self.chain[-1].result])
        last = Builder.before(self.chain[-1])
        everything = tuple(range(count * PARTS))
        total = last(ops.thread.frag_shuffle, *results, registers=everything)
        self.chain[-1].result.replace_by(total)
        for op in (*reversed(self.chain), self.wait, self.dot):
            op.erase()

    def _multiplied(self, build: Builder, number: int, count: int) -> Value:
        """Multiply a part of the columns, and wait for it."""
        a, b, acc = self.dot.inputs
        m, n, k, bits = self.dot["shape"]
        part = build(ops.shared.local_part, b, axis=1, number=number, count=PARTS)
        zero = build(arith.const, value=constant_of(acc), result=Fragment(count, acc.type.element))
        attributes = {**self.dot.attributes, "shape": (m, n // PARTS, k, bits)}
        begun = build(self.dot.defn, a, part, zero, **attributes)
        return build(self.wait.defn, begun, pending=0)


def _added(dot: Operation) -> _AddedDot | None:
    """Return a wgmma whose result is added to a loop-carried value, if it can be split."""
    m, columns, _ = wgmma_sizes(dot)
    shape, (rows, groups), b = MmaShape(*dot["shape"]), dot["warpgroups"], shared_of(dot["b"].type)
    if (
        constant_of(dot["acc"]) != 0
        or (m, columns) != (shape.m * rows, shape.n)
        or groups > 1
        or dot["columns"] not in (0, columns)
        or columns // PARTS < LEAST_COLUMNS
        or part_layout(b, 1, PARTS) is None
    ):
        return None
    (wait,) = users if len(users := list(dot.result.users)) == 1 else (dot,)
    if wait.defn is not ops.wgmma.wgmma_wait or wait["pending"] or wait.block is not dot.block:
        return None
    chain, value = list[Operation](), wait.result
    while len(users := list(value.users)) == 1 and users[0].defn is not control.yield_:
        if not is_registerwise(users[0]) or users[0].block is not dot.block:
            return None
        chain.append(users[0])
        value = users[0].result
    others = [each for op in chain for each in op.inputs if each.op not in (wait, *chain)]
    before = _computed_between(wait, others)
    carried = [user.defn for user in value.users] == [control.yield_]
    return _AddedDot(dot, wait, chain, before) if chain and carried and before is not None else None


def _computed_between(start: Operation, values: Sequence[Value]) -> list[Operation] | None:
    """Return the operations after `start` that values need, in order; None if some have effects."""
    waiting, between, block = list(values), set[Operation](), start.block
    assert block is not None
    while waiting:
        op = waiting.pop().op
        if op is None or op in between or op.block is not block or op.is_before(start):
            continue
        if not is_pure(op):
            return None
        between.add(op)
        waiting += op.inputs
    return [op for op in block if op in between]
