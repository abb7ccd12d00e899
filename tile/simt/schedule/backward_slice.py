"""Backward slices of values that a loop computes, which run some iterations ahead of the loop.

The *backward slice* of some values are the pure operations of the loop's body that they are
computed from, the loop-carried values that go into these, and the operations that compute those
for the next iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Operation, Trait, Value, clone
from tile.ir.effects import is_pure


@dataclass(frozen=True)
class BackwardSlice:
    """Operations of a loop's body, in order.

    carried: positions of the loop-carried values that go into them.
    """

    loop: Operation
    ops: tuple[Operation, ...]
    carried: tuple[int, ...]

    def clone_at(
        self, build: Builder, index: Value, carried: Sequence[Value]
    ) -> dict[Value, Value]:
        """Clone the slice for the iteration of induction variable `index`.

        carried: the values of the slice's loop-carried values in that iteration.
        Returns the clone of each value of the body.
        """
        (body,) = self.loop.regions
        mapping = {body.args[0]: index}
        for position, value in zip(self.carried, carried, strict=True):
            mapping[body.args[1 + position]] = value
        for op in self.ops:
            build.block.insert(clone(op, mapping), build.anchor)
        return mapping

    def next_carried(self, mapping: dict[Value, Value]) -> list[Value]:
        """Return the loop-carried values of the iteration after that of `mapping`."""
        yielded = self.loop.regions[0].yielded
        return [mapping.get(yielded[position], yielded[position]) for position in self.carried]


def backward_slice(loop: Operation, values: Iterable[Value]) -> BackwardSlice | None:
    """Return the backward slice of some values that a loop's body uses.

    None if they depend on something that cannot be computed iterations ahead.
    """
    (body,) = loop.regions
    yielded = body.yielded
    ops: set[Operation] = set()
    carried: set[int] = set()
    worklist = list(values)
    while worklist:
        value = worklist.pop()
        if value.owner is body:
            position = value.index - 1
            if position >= 0 and position not in carried:
                carried.add(position)
                worklist.append(yielded[position])
            continue
        op = value.op
        if op is None or op.block is not body or op in ops:
            continue
        if not is_pure(op) or any(_is_single(nested) for nested in op.walk()):
            return None
        ops.add(op)
        for nested in op.walk():
            worklist.extend(nested.inputs)
    in_order = tuple(op for op in body if op in ops)
    return BackwardSlice(loop, in_order, tuple(sorted(carried)))


def add_loop_carried(
    loop: Operation, inits: Sequence[Value], advance: Callable[[list[Value]], Sequence[Value]]
) -> list[Value]:
    """Add loop-carried values to a loop, and return them as arguments of its body.

    inits: the values of the first iteration.
    advance: builds the next iteration's values from those of an iteration.
    """
    (body,) = loop.regions
    loop.set_operands([*loop.operands, *inits])
    args = [body.add_arg(value.type, value.name) for value in inits]
    for value in inits:
        loop.add_result(value.type)
    next_carried = advance(args)
    assert body.last is not None
    body.last.set_operands([*body.last.inputs, *next_carried])
    return args


def _is_single(op: Operation) -> bool:
    """Return True if an operation is not computed twice: a costly dot, or a loop that may hang."""
    return op.has_trait(Trait.DOT) or op.has_trait(Trait.LOOP)
