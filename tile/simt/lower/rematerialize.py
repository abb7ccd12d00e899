"""Rematerialize cheap values after a loop instead of holding them in registers throughout."""

from __future__ import annotations

from tile.ir.core import Operation, Value, clone
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, memory
from tile.ir.ops.dot import takes_registers
from tile.ir.passes import module_pass
from tile.ir.types import Fragment
from tile.simt import ops

# The thread's position in its program, from which it computes its indices.
_POSITIONS = frozenset({ops.thread.thread_id, ops.thread.layout_index})
_CHEAP = _POSITIONS | {
    ops.thread.frag_splat,
    ops.thread.frag_shuffle,
    memory.addptr,
    arith.const,
    arith.add,
    arith.sub,
    arith.mul,
    arith.and_,
    arith.or_,
    arith.xor,
    arith.cmp,
    arith.cast,
}


@module_pass("rematerialize", before=Level.THREAD)
def rematerialize(module: Module) -> None:
    """Recompute indices, pointers and masks after a loop with dots that uses none of them.

    The dots of the loop then have all registers. Uniform values stay.

        %i = layout_index {layout = #a}           %r = for .. {
        %p = addptr %q, %i {stride = 4}             %d = mma %a, %b, %c
        %r = for .. {                               yield %d
          %d = mma %a, %b, %c                     }
          yield %d                                %i = layout_index {layout = #a, no_cse = true}
        }                                         %p = addptr %q, %i {stride = 4}
        store %p, %r                              store %p, %r
    """
    for function in module:
        for loop in [op for op in function.walk() if op.has_trait(Trait.LOOP)]:
            if not loop.in_loop and any(takes_registers(op) for op in loop.walk()):
                _Behind(loop).run()


class _Behind:
    """The operations after a loop in its block, and the values recomputed for them."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.used = {value for body in loop.regions for op in body.walk() for value in op.inputs}
        self.ops: list[Operation] = []
        op = loop.next
        while op is not None:
            self.ops.append(op)
            op = op.next
        self.inside = {nested for op in (loop, *self.ops) for nested in op.walk()}
        self.cheap: dict[Value, bool] = {}
        self.copies: dict[Value, Value] = {}

    def run(self) -> None:
        for op in self.ops:
            for user in list(op.walk()):
                for index, value in enumerate(user.operands):
                    if value is not None and self.is_held(value) and self.is_cheap(value):
                        user.set_operand(index, self.copy(value, op))

    def is_held(self, value: Value) -> bool:
        """Return True if a fragment is live throughout the loop only for uses after it."""
        op = value.op
        here = op is not None and op not in self.inside
        return here and isinstance(value.type, Fragment) and value not in self.used

    def is_cheap(self, value: Value) -> bool:
        """Return True if a value is live after the loop anyway, or cheap to recompute."""
        op = value.op
        if op is None or op in self.inside or value in self.copies:
            return True
        if op.defn not in _CHEAP:
            return value in self.used or _is_uniform(value)
        if value not in self.cheap:
            self.cheap[value] = all(self.is_cheap(operand) for operand in op.inputs)
        return self.cheap[value]

    def copy(self, value: Value, before: Operation) -> Value:
        """Return a cheap value recomputed in front of an operation or an earlier one."""
        op = value.op
        if op is None or op in self.inside or op.defn not in _CHEAP:
            return value
        if op.defn not in _POSITIONS and _is_uniform(value):
            return value
        if value not in self.copies:
            new = clone(op, {operand: self.copy(operand, before) for operand in op.inputs})
            if op.defn in _POSITIONS:
                new.attributes["no_cse"] = True
            new.move_before(before)
            self.copies[value] = new.result
        return self.copies[value]


def _is_uniform(value: Value) -> bool:
    """Return True if a value is a scalar: uniform unless it is computed from the thread's index."""
    return not isinstance(value.type, Fragment)
