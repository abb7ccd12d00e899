"""The regions of `reduce_by` and `scan_by`: how two groups of scalars are combined to one."""

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

# Makes a region anew for each operation that is to have it.
Region = Callable[[], Block]
# Of two groups, the one that they are combined to.
Combine = Callable[[Builder, Sequence[Value], Sequence[Value]], Sequence[Value]]

# What combines two elements.
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


def copy_of(region: Block) -> Region:
    """The same region again."""

    def copy() -> Block:
        block = Block([arg.type for arg in region.args], [arg.name for arg in region.args])
        mapping = dict(zip(region.args, block.args, strict=True))
        for op in region:
            block.append(clone(op, mapping))
        return block

    return copy


def combining(kind: ReduceKind, element: Type, propagate_nan: bool = False) -> Region:
    """Two elements combined as `reduce` and `scan` do it."""

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        if kind in EXTREMES:
            return [b(KINDS[kind], *x, *y, propagate_nan=propagate_nan)]
        return [b(KINDS[kind], *x, *y)]

    return partial(_region, [element], combine)


def better(kind: ArgKind, element: Scalar, tie_break_left: bool) -> Region:
    """Of two elements with their indices, the one that `arg_reduce` looks for.

    In its order a NaN stands behind every number, and equal to other NaNs.
    """
    at_least, above = {
        ArgKind.MAX: (Predicate.GE, Predicate.GT),
        ArgKind.MIN: (Predicate.LE, Predicate.LT),
    }[kind]
    first = Predicate.LT if tie_break_left else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        tied = b(arith.cmp, x[0], y[0], predicate=at_least)
        wins = b(arith.cmp, x[0], y[0], predicate=above)
        if element.is_floating():
            x_number = b(arith.cmp, x[0], x[0], predicate=Predicate.EQ)
            y_nan = b(arith.cmp, y[0], y[0], predicate=Predicate.NE)
            tied = b(arith.or_, tied, y_nan)
            wins = b(arith.or_, wins, b(arith.and_, y_nan, x_number))
        # One of the two always holds: `tied` of x and y, or `wins` of y and x.
        takes = b(arith.select, b(arith.cmp, x[1], y[1], predicate=first), tied, wins)
        return [b(arith.select, takes, own, other) for own, other in zip(x, y, strict=True)]

    return partial(_region, [element, I32], combine)


def latest(elements: Sequence[Type], reverse: bool) -> Region:
    """Of two groups that end with an index, the one of the greater, or least for `reverse`."""
    predicate = Predicate.LT if reverse else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        later = b(arith.cmp, x[-1], y[-1], predicate=predicate)
        return [b(arith.select, later, own, other) for own, other in zip(x, y, strict=True)]

    return partial(_region, [*elements, I32], combine)


def either(element: Type) -> Region:
    """Of two elements that are equal, one."""
    return partial(_region, [element], lambda b, x, y: x)
