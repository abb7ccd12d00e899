"""Changes to structured control flow that several passes make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tile.ir.core import Block, Operation, Value, clone
from tile.ir.ops import control


def splice(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Move a block's operations in front of an operation, with values for the block's arguments.

    The block's terminator is erased; what it passed on is returned. The block is empty afterwards.
    """
    for old, new in zip(block.args, arguments, strict=True):
        old.replace_by(new)
    end = block.last
    assert end is not None and before.block is not None
    passed = end.inputs
    end.erase()
    for op in block:
        op.unlink()
        before.block.insert(op, before)
    return passed


def copy_into(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Like `splice`, with copies: the block stays as it is."""
    mapping: dict[Value, Value] = dict(zip(block.args, arguments, strict=True))
    end = block.last
    assert end is not None and before.block is not None
    for op in block:
        if op is not end:
            before.block.insert(clone(op, mapping), before)
    return renamed(end.inputs, mapping)


def renamed(values: Sequence[Value], mapping: Mapping[Value, Value]) -> list[Value]:
    """The values, or what a mapping has instead of them."""
    return [mapping.get(value, value) for value in values]


def without_results(op: Operation, replacements: Mapping[int, Value]) -> Operation:
    """An `if`, `for` or `while` in place of `op` without the results at some positions.

    A replacement takes the place of the result and of the carried values in the regions.
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
    """Where among the arguments of its regions an operation's carried values begin."""
    return 1 if op.defn is control.for_ else 0


def stop_passing(op: Operation, positions: Collection[int]) -> None:
    """Yield nothing for some results from the regions of `op`, which is then to be shrunk."""
    for region in op.regions:
        end = region.last
        if positions and end is not None and end.defn is control.yield_:
            end.set_operands([v for i, v in enumerate(end.inputs) if i not in positions])


def shrink(op: Operation, positions: Collection[int]) -> Operation:
    """Take away results, and the carried values that go with them; none may be in use any more.

    Returns the operation that stands in place of `op`, which is erased; `op` itself if there is
    nothing to take away.
    """
    if not positions:
        return op
    assert op.block is not None
    kept = [index for index in range(len(op.results)) if index not in positions]
    fixed, first = len(op.defn.operands), first_carried(op)
    carried = op.inputs[fixed:]
    for region in op.regions:
        gone = [v for i, v in enumerate(region.args[first:]) if i in positions]
        assert not any(value.uses for value in gone), "a carried value is taken away while in use"
        region.args = [value for value in region.args if value not in gone]
        for index, value in enumerate(region.args):
            value.index = index
    operands = [*op.inputs[:fixed], *(carried[index] for index in kept if carried)]
    regions, op.regions = op.regions, []
    types = [op.results[index].type for index in kept]
    new = op.block.insert(Operation(op.defn, operands, op.attributes, regions, types, op.loc), op)
    for index, value in zip(kept, new.results, strict=True):
        value.name = op.results[index].name
        op.results[index].replace_by(value)
    op.erase()
    return new
