"""Copies of a loop's operations that run in another iteration than the one that they belong to.

A stage of a multi-buffer is named by a count of iterations and an offset. So the copy of its view
has another offset, and the count of the iteration in which it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.core import Block, Operation, Value, clone
from tile.ir.shared_type import Shared
from tile.simt.ops.layout_inference import LayoutBuilder


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
