"""Utilities for passes that change structured control flow.

They splice and copy regions, add loop-carried values, remove these and results of branches, and
find all names of one value that a loop carries or a branch yields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tile.ir.builder import Builder, create
from tile.ir.core import Block, Operation, Value, clone
from tile.ir.ops import control
from tile.ir.types import Tile
from tile.location import Loc


def splice(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Move a block's operations before an operation, with values for the block's arguments.

    Erase the block's terminator and return its operands. The block is empty afterwards.
    """
    for old, new in zip(block.args, arguments, strict=True):
        old.replace_by(new)
    end, yielded = block.last, block.yielded
    assert end is not None
    end.erase()
    for op in block:
        op.move_before(before)
    return yielded


def copy_into(block: Block, before: Operation, arguments: Sequence[Value]) -> list[Value]:
    """Copy a block's operations before an operation, like `splice`; the block is unchanged."""
    mapping: dict[Value, Value] = dict(zip(block.args, arguments, strict=True))
    end = block.last
    for op in block:
        if op is not end:
            clone(op, mapping).move_before(before)
    return renamed(block.yielded, mapping)


def renamed(values: Sequence[Value], mapping: Mapping[Value, Value]) -> list[Value]:
    """Return the values, replaced by a mapping where it has them."""
    return [mapping.get(value, value) for value in values]


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


def branch_around(loop: Operation, condition: Value) -> None:
    """Run a `for` loop only if a condition holds; else its results are what it starts with."""
    block, following = loop.block, loop.next
    assert block is not None
    uses = [list(result.uses) for result in loop.results]
    running, idle = Block(), Block()
    loop.unlink()
    running.append(loop)
    for branch, values in ((running, loop.results), (idle, loop.inputs[3:])):
        Builder(branch, None, loop.loc).op(control.yield_, *values)
    new = block.insert(create(control.if_, [condition], {}, [running, idle], loop.loc), following)
    for old, result, outside in zip(loop.results, new.results, uses, strict=True):
        result.type, result.name = old.type, old.name
        for user, index in outside:
            user.set_operand(index, result)


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
    remaining = [index for index in range(len(op.results)) if index not in positions]
    fixed, first = len(op.defn.operands), first_carried(op)
    carried = op.inputs[fixed:]
    for region in op.regions:
        removed = [v for i, v in enumerate(region.args[first:]) if i in positions]
        assert not any(value.uses for value in removed), "a removed carried value is in use"
        region.remove_args(removed)
    operands = [*op.inputs[:fixed], *(carried[index] for index in remaining if carried)]
    regions, op.regions = op.regions, []
    types = [op.results[index].type for index in remaining]
    new = Builder.before(op).copy(op, operands, types, regions)
    for index, value in zip(remaining, new.results, strict=True):
        value.name = op.results[index].name
        op.results[index].replace_by(value)
    op.erase()
    return new


# An operand: the operation that takes it, and its position.
Use = tuple[Operation, int]

CONTROL_FLOW_OPS = frozenset({control.for_, control.while_, control.if_})


@dataclass(frozen=True)
class CarriedTile:
    """A tile that a loop carries or a branch yields."""

    result: Value
    arguments: tuple[Value, ...]  # of the regions
    starts: tuple[Use, ...]  # its initial value, as an operand of the loop
    ends: tuple[Use, ...]  # its values as operands of the regions' terminators

    @property
    def inits(self) -> tuple[Value, ...]:
        """The initial values of a loop-carried tile."""
        return tuple(used_value(use) for use in self.starts)

    @property
    def yields(self) -> tuple[Value, ...]:
        """The values that the regions yield."""
        return tuple(used_value(use) for use in self.ends)

    @property
    def values(self) -> tuple[Value, ...]:
        """The value under each of its names: the result and the region arguments."""
        return (self.result, *self.arguments)


def carried_tiles(op: Operation) -> Iterator[CarriedTile]:
    """Yield the tiles that a `for`, `while` or `if` carries."""
    fixed = len(op.defn.operands)
    first = first_carried(op)
    lasts = [region.last for region in op.regions]
    ends = [last for last in lasts if last is not None and last.defn is control.yield_]
    loop = op.defn is not control.if_
    for index, result in enumerate(op.results):
        if isinstance(result.type, Tile):
            yield CarriedTile(
                result,
                tuple(region.args[first + index] for region in op.regions) if loop else (),
                ((op, fixed + index),) if loop else (),
                tuple((end, index) for end in ends),
            )


def conversion_loc(value: Value, users: Iterable[Operation]) -> Loc | None:
    """Return the source location of a conversion of a value for some of its users.

    It is that of the operation that computes the value. For a loop-carried value or a branch's
    result, it is that of the first user that is not a loop or branch itself.
    """
    maker = value.op
    makers = [maker] if maker is not None and maker.defn not in CONTROL_FLOW_OPS else []
    for op in (*makers, *users):
        if op.loc is not None and op.defn not in CONTROL_FLOW_OPS and not op.defn.terminator:
            return op.loc
    owner = maker or value.block.parent
    return None if owner is None else owner.loc


def used_value(use: Use) -> Value:
    """Return the operand."""
    op, index = use
    value = op.operands[index]
    assert value is not None
    return value
