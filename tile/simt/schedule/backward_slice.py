"""Operations of a loop that are computed in another iteration than their own.

The *backward slice* of some values are the pure operations of the loop's body that they are
computed from, the loop-carried values that go into these, and the operations that compute those
for the next iteration. Loads may be part of it, where a caller says which may be done early.

A stage of a multi-buffer is named by a count of iterations and an offset. So the copy of its view
in another iteration (`copy_shifted`) has another offset, and the count of that iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.op_definition import Trait
from tile.ir.shared_type import Shared
from tile.simt.ops.layout_inference import LayoutBuilder


@dataclass(frozen=True)
class BackwardSlice:
    """Operations of a loop's body, in order.

    carried: positions of the loop-carried values that go into them.
    """

    loop: Operation
    ops: tuple[Operation, ...]
    carried: tuple[int, ...]

    @property
    def loads(self) -> list[Operation]:
        """The operations that are not pure."""
        return [op for op in self.ops if not is_pure(op)]

    def clone_at(
        self,
        build: Builder,
        index: Value,
        carried: Sequence[Value],
        copy_load: Callable[[Operation, dict[Value, Value]], object] | None = None,
    ) -> dict[Value, Value]:
        """Clone the slice for the iteration of induction variable `index`.

        carried: the values of the slice's loop-carried values in that iteration. copy_load: copies
        a load, and adds its result to the values; None clones it.
        Returns the clone of each value of the body.
        """
        (body,) = self.loop.regions
        mapping = {body.args[0]: index}
        for position, value in zip(self.carried, carried, strict=True):
            mapping[body.args[1 + position]] = value
        for op in self.ops:
            if copy_load is None or is_pure(op):
                build.block.insert(clone(op, mapping), build.anchor)
            else:
                copy_load(op, mapping)
        return mapping

    def next_carried(self, mapping: dict[Value, Value]) -> list[Value]:
        """Return the loop-carried values of the iteration after that of `mapping`."""
        yielded = self.loop.regions[0].yielded
        return [mapping.get(yielded[position], yielded[position]) for position in self.carried]


def backward_slice(
    loop: Operation, values: Iterable[Value], loads: Collection[Operation] = ()
) -> BackwardSlice | None:
    """Return the backward slice of some values that a loop's body uses.

    loads: those of the body that may be done iterations ahead. None if the values depend on
    something that cannot be computed then.
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
        if op not in loads and (not is_pure(op) or any(map(_is_single, op.walk()))):
            return None
        ops.add(op)
        for nested in op.walk():
            worklist.extend(nested.inputs)
    return BackwardSlice(loop, tuple(op for op in body if op in ops), tuple(sorted(carried)))


def _is_single(op: Operation) -> bool:
    """Return True if an operation is not computed twice: a costly dot, or a loop that may hang."""
    return op.has_trait(Trait.DOT) or op.has_trait(Trait.LOOP)


def operands_of(op: Operation, body: Block) -> list[Value]:
    """Return what an operation needs of its iteration: operands, and those of views of buffers.

    Counts of iterations are left out, since copies have their own.
    """
    operands: list[Value] = []
    for index, value in enumerate(op.operands):
        if value is not None and index != op.defn.positions.get("iteration"):
            view = _view(value, body)
            operands += [value] if view is None else operands_of(view, body)
    return operands


def _view(value: Value, body: Block) -> Operation | None:
    """Return the operation of a value that is a view of a buffer in an iteration."""
    is_view = isinstance(value.type, Shared) and value.block is body
    return value.op if is_view else None


def copy_shifted(
    op: Operation,
    body: Block,
    build: LayoutBuilder,
    mapping: dict[Value, Value],
    shift: int,
    count: Callable[[Value], Value] = lambda value: value,
) -> Operation:
    """Copy an operation of a body, with the views that it uses; return the copy.

    mapping: values of the iteration that the copy belongs to; its results are added.
    shift: by how many iterations that is later than the one in which the copy runs.
    count: returns the count of iterations where the copy runs.
    """
    for value in op.inputs:
        view = _view(value, body)
        if view is not None:
            copy_shifted(view, body, build, mapping, shift, count)
    new = clone(op, mapping)
    position = op.defn.positions.get("iteration")
    if position is not None:
        new.set_operand(position, count(op.inputs[position]))
        new.attributes["stage_offset"] += shift
    return build.block.insert(new, build.anchor)
