"""Utilities for passes that change structured control flow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tile.ir.core import Block, Operation, Value, clone
from tile.ir.ops import control


def splice(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Move a block's operations before an operation, with values for the block's arguments.

    Erase the block's terminator and return its operands. The block is empty afterwards.
    """
    for old, new in zip(block.args, arguments, strict=True):
        old.replace_by(new)
    end = block.last
    assert end is not None and before.block is not None
    yielded = end.inputs
    end.erase()
    for op in block:
        op.unlink()
        before.block.insert(op, before)
    return yielded


def copy_into(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Copy a block's operations before an operation, like `splice`; the block is unchanged."""
    mapping: dict[Value, Value] = dict(zip(block.args, arguments, strict=True))
    end = block.last
    assert end is not None and before.block is not None
    for op in block:
        if op is not end:
            before.block.insert(clone(op, mapping), before)
    return renamed(end.inputs, mapping)


def renamed(values: Sequence[Value], mapping: Mapping[Value, Value]) -> list[Value]:
    """Return the values, replaced by a mapping where it has them."""
    return [mapping.get(value, value) for value in values]


def without_results(op: Operation, replacements: Mapping[int, Value]) -> Operation:
    """Replace an `if`, `for` or `while` by one without the results at some positions.

    A replacement value is used for the result and for the carried values in the regions.
    """
    first = first_carried(op)
    for index, value in replacements.items():
        op.results[index].replace_by(value)
        for region in op.regions:
            for argument in region.args[first + index : first + index + 1]:
                argument.replace_by(value)
    stop_passing(op, replacements)
    return shrink(op, replacements)


def first_carried(op: Operation) -> int:
    """Return the index of the first carried value among the arguments of an operation's regions."""
    return 1 if op.defn is control.for_ else 0


def stop_passing(op: Operation, positions: Collection[int]) -> None:
    """Remove the yielded values at some positions from the regions of `op`; call `shrink` next."""
    for region in op.regions:
        end = region.last
        if positions and end is not None and end.defn is control.yield_:
            end.set_operands([v for i, v in enumerate(end.inputs) if i not in positions])


def shrink(op: Operation, positions: Collection[int]) -> Operation:
    """Remove unused results and their carried values.

    Return the operation that replaces `op`, or `op` itself if `positions` is empty.
    """
    if not positions:
        return op
    assert op.block is not None
    remaining = [index for index in range(len(op.results)) if index not in positions]
    fixed, first = len(op.defn.operands), first_carried(op)
    carried = op.inputs[fixed:]
    for region in op.regions:
        removed = [v for i, v in enumerate(region.args[first:]) if i in positions]
        assert not any(value.uses for value in removed), "a removed carried value is in use"
        region.args = [value for value in region.args if value not in removed]
        for index, value in enumerate(region.args):
            value.index = index
    operands = [*op.inputs[:fixed], *(carried[index] for index in remaining if carried)]
    regions, op.regions = op.regions, []
    types = [op.results[index].type for index in remaining]
    new = op.block.insert(Operation(op.defn, operands, op.attributes, regions, types, op.loc), op)
    for index, value in zip(remaining, new.results, strict=True):
        value.name = op.results[index].name
        op.results[index].replace_by(value)
    op.erase()
    return new
