"""The regions of `reduce_by` and `scan_by`, which combine two groups of scalars into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tile.ir.builder import Builder
from tile.ir.core import Block, Value, clone
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.ops.reduce import EXTREMES, ArgKind, ReduceKind
from tile.ir.types import I32, Scalar, Type

# Builds a new region for each operation that needs it.
Region = Callable[[], Block]
# Builds the combination of two groups.
Combine = Callable[[Builder, Sequence[Value], Sequence[Value]], Sequence[Value]]

# The operation that combines two elements.
KINDS: dict[ReduceKind, OpDef] = {
    ReduceKind.SUM: arith.add,
    ReduceKind.PROD: arith.mul,
    ReduceKind.XOR: arith.xor,
    ReduceKind.AND: arith.and_,
    ReduceKind.OR: arith.or_,
    ReduceKind.MAX: arith.max_,
    ReduceKind.MIN: arith.min_,
}


def _region(elements: Sequence[Type], combine: Combine) -> Block:
    count = len(elements)
    block = Block([*elements, *elements])
    b = Builder(block)
    b.op(control.yield_, *combine(b, block.args[:count], block.args[count:]))
    return block


def clone_region(region: Block) -> Region:
    """Return a builder of clones of a region."""

    def copy() -> Block:
        block = Block([arg.type for arg in region.args], [arg.name for arg in region.args])
        mapping = dict(zip(region.args, block.args, strict=True))
        for op in region:
            block.append(clone(op, mapping))
        return block

    return copy


def elementwise_region(kind: ReduceKind, element: Type, propagate_nan: bool = False) -> Region:
    """Return the region that combines two elements as `reduce` and `scan` of a kind do."""

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        if kind in EXTREMES:
            return [b(KINDS[kind], *x, *y, propagate_nan=propagate_nan)]
        return [b(KINDS[kind], *x, *y)]

    return partial(_region, [element], combine)


def arg_region(kind: ArgKind, element: Scalar, tie_break_left: bool) -> Region:
    """Return the region that selects, of two elements with their indices, that of `arg_reduce`.

    A NaN is worse than every number, and equal to other NaNs.
    """
    at_least, above = {
        ArgKind.MAX: (Predicate.GE, Predicate.GT),
        ArgKind.MIN: (Predicate.LE, Predicate.LT),
    }[kind]
    first = Predicate.LT if tie_break_left else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        ties = b(arith.cmp, x[0], y[0], predicate=at_least)
        wins = b(arith.cmp, x[0], y[0], predicate=above)
        if element.is_floating():
            x_number = b(arith.cmp, x[0], x[0], predicate=Predicate.EQ)
            y_nan = b(arith.cmp, y[0], y[0], predicate=Predicate.NE)
            ties = b(arith.or_, ties, y_nan)
            wins = b(arith.or_, wins, b(arith.and_, y_nan, x_number))
        # Either `ties` holds for (x, y), or `wins` for (y, x).
        takes = b(arith.select, b(arith.cmp, x[1], y[1], predicate=first), ties, wins)
        return [b(arith.select, takes, own, other) for own, other in zip(x, y, strict=True)]

    return partial(_region, [element, I32], combine)


def last_region(elements: Sequence[Type], reverse: bool) -> Region:
    """Return the region that selects the group with the greater index, its last element.

    reverse: select the group with the lesser index.
    """
    predicate = Predicate.LT if reverse else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        later = b(arith.cmp, x[-1], y[-1], predicate=predicate)
        return [b(arith.select, later, own, other) for own, other in zip(x, y, strict=True)]

    return partial(_region, [*elements, I32], combine)


def any_region(element: Type) -> Region:
    """Return the region that selects either of two equal elements."""
    return partial(_region, [element], lambda b, x, y: x)
