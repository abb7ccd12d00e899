"""Decompose reductions of any layout, by kind and by region, into `reduce_region`.

Its region combines two groups of scalars into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone_block
from tile.ir.expressions import Expression
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, shape
from tile.ir.ops import reduce as reduce_ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.reduce import EXTREMES, ArgKind, ReduceKind
from tile.ir.types import BF16, F16, F32, I32, NARROW_FLOATS, U32, Scalar, Tile, Type, number_of
from tile.simt.layouts.dims import REGISTER
from tile.simt.lower.decompose.axis_split import (
    axis_owners,
    exchanged,
    indices_along,
    nearer,
    permute_and_split,
    straight,
)
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, reduced_layout
from tile.simt.target import SimtTarget

# Builds a new region for each operation that needs it.
Region = Callable[[], Block]
# Builds the combination of two groups.
Combine = Callable[[Builder, Sequence[Value], Sequence[Value]], Sequence[Value]]

# The operation that combines two elements.
COMBINE_OPS: dict[ReduceKind, OpDef] = {
    ReduceKind.SUM: arith.add,
    ReduceKind.PROD: arith.mul,
    ReduceKind.XOR: arith.xor,
    ReduceKind.AND: arith.and_,
    ReduceKind.OR: arith.or_,
    ReduceKind.MAX: arith.max_,
    ReduceKind.MIN: arith.min_,
}


def combining_region(elements: Sequence[Type], combine: Combine) -> Block:
    """Build the region that combines two groups of elements of some types."""
    count = len(elements)
    block = Block([*elements, *elements])
    b = Builder(block)
    b.op(control.yield_, *combine(b, block.args[:count], block.args[count:]))
    return block


def clone_region(region: Block) -> Region:
    """Return a builder of clones of a region."""
    return lambda: clone_block(region, {})


def elementwise_region(kind: ReduceKind, element: Type, propagate_nan: bool = False) -> Region:
    """Return the region that combines two elements as `reduce` and `scan` of a kind do."""

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        if kind in EXTREMES:
            return [b(COMBINE_OPS[kind], *x, *y, propagate_nan=propagate_nan)]
        return [b(COMBINE_OPS[kind], *x, *y)]

    return partial(combining_region, [element], combine)


_AT_LEAST = {ArgKind.MAX: Predicate.GE, ArgKind.MIN: Predicate.LE}
_ABOVE = {ArgKind.MAX: Predicate.GT, ArgKind.MIN: Predicate.LT}


def _ties_or_wins(b: Builder, kind: ArgKind, x: Value, y: Value) -> Value:
    """Return whether `x` is at least as good as `y`.

    A NaN is worse than every number, and equal to other NaNs.
    """
    own, other = Expression(b, x), Expression(b, y)
    at_least = own.is_(_AT_LEAST[kind], other)
    return (at_least | other.is_(Predicate.NE, other) if own.is_float else at_least).value


def _wins(b: Builder, kind: ArgKind, x: Value, y: Value) -> Value:
    """Return whether `x` is better than `y`."""
    own, other = Expression(b, x), Expression(b, y)
    above = own.is_(_ABOVE[kind], other)
    if not own.is_float:
        return above.value
    is_number = own.equals(own)
    return (above | (other.is_(Predicate.NE, other) & is_number)).value


def arg_region(kind: ArgKind, element: Scalar, tie_break_left: bool) -> Region:
    """Return the region of `arg_reduce`, which selects one of two elements with their indices."""
    first = Predicate.LT if tie_break_left else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        ties, wins = _ties_or_wins(b, kind, x[0], y[0]), _wins(b, kind, x[0], y[0])
        # Either the first holds for (x, y), or the second for (y, x).
        takes = b(arith.select, b(arith.cmp, x[1], y[1], predicate=first), ties, wins)
        return [b(arith.select, takes, own, other) for own, other in zip(x, y, strict=True)]

    return partial(combining_region, [element, I32], combine)


def any_region(element: Type) -> Region:
    """Return the region that selects either of two equal elements."""
    return partial(combining_region, [element], lambda b, x, y: x)


# Sums and products of narrow floats are accumulated in f32.
_ACCUMULATED = (ReduceKind.SUM, ReduceKind.PROD)


def accumulator(kind: ReduceKind, element: Type) -> Type:
    """Return the type in which elements are combined."""
    return F32 if kind in _ACCUMULATED and element in NARROW_FLOATS else element


def cast(b: LayoutBuilder, x: Value, to: Type) -> Value:
    """Return the value cast to a type; the value itself if it has that type."""
    return x if x.type.element == to else b(arith.cast, x, to=to)


def reduce(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace a `reduce` by `reduce_region`, with a region in place of its kind."""
    (x,) = op.inputs
    element = accumulator(op["kind"], x.type.element)
    region = elementwise_region(op["kind"], element, op["propagate_nan"])
    (result,) = reduce_along(b, [cast(b, x, element)], op["axis"], region, target)
    return [cast(b, result, x.type.element)]


def arg_reduce(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace an `arg_reduce` by comparisons in each thread and a `reduce_region` of pairs.

    A pair is an element and its index. Where only the indices of floats are used, and no shared
    memory is needed, the elements are reduced first, then the indices of those that equal the best.
    """
    (x,), axis = op.inputs, op["axis"]
    element, kind, left = number_of(x.type), op["kind"], op["tie_break_left"]
    x = b.convert(x, straight(layout_of(x), axis))
    only_index = not op.results[0].uses
    if only_index and _reduces_first(x, axis, target):
        return [b.constant(0, op.results[0].type), _index_of_best(b, x, axis, kind, left)]
    pairs = [x, indices_along(b, x, axis)]
    while registers := axis_owners(layout_of(pairs[0]), axis).registers:
        pairs = _select_in_thread(b, pairs, axis, min(registers), kind, left)
    if not only_index or not _warps_reduce_order(pairs[0], axis, target):
        return reduce_along(b, pairs, axis, arg_region(kind, element, left), target)
    order, index = _select_in_warp(b, pairs, axis, kind, left)
    if axis_owners(layout_of(pairs[0]), axis).warps:
        region = arg_region(kind, _order_type(x), left)
        order, index = reduce_along(b, [order, index], axis, region, target)
    return [b.constant(0, op.results[0].type), index]


# The types of floats of which targets have minima and maxima.
_COMPARED = (F32, F16, BF16)


def _reduces_first(x: Value, axis: int, target: SimtTarget) -> bool:
    """Return True if warps reduce floats along an axis, which need no shared memory for it."""
    is_near = not axis_owners(layout_of(x), axis).far(target.shuffles)
    return is_near and x.type.element in _COMPARED and not _warps_reduce_order(x, axis, target)


def _index_of_best(b: LayoutBuilder, x: Value, axis: int, kind: ArgKind, left: bool) -> Value:
    """Return the indices of the best floats along an axis that each warp reduces.

    A reduction takes one instruction for each element, and so does the same one elsewhere in the
    kernel: `min` and `argmin` of a tile share it. A comparison of pairs takes four, as a NaN is
    worse than every number.
    """
    best = _reduce_in_warp(b, x, axis, _BEST[kind])
    is_best = b(arith.cmp, x, _spread(b, best, axis, x), predicate=Predicate.EQ)
    index = indices_along(b, x, axis)
    while registers := axis_owners(layout_of(index), axis).registers:
        sides = [_split_bit(b, value, axis, min(registers)) for value in (is_best, index)]
        (low, high), (low_index, high_index) = sides
        is_best = b(arith.or_, low, high)
        takes, own, other = (low, low_index, high_index) if left else (high, high_index, low_index)
        index = b(arith.select, takes, own, other)
    first = ReduceKind.MIN if left else ReduceKind.MAX
    index = b(arith.select, is_best, index, b.constant(_WORST[first], index.type))
    index = _reduce_in_warp(b, index, axis, first)
    # NaNs alone are equal, so that their first one is the best.
    best_number = Expression(b, best)
    index_of_nan = 0 if left else x.type.shape[axis] - 1
    return best_number.equals(best_number).select(Expression(b, index), index_of_nan).value


def _order_type(x: Value) -> Scalar:
    """Return the 32-bit integer that has the order of elements of at most 32 bits."""
    element = number_of(x.type)
    return U32 if element.is_int() and not element.is_int_signed() else I32


def _warps_reduce_order(x: Value, axis: int, target: SimtTarget) -> bool:
    """Return True if the lanes of a warp share an axis, and it reduces the order of elements."""
    kinds = (ReduceKind.MAX, ReduceKind.MIN)
    return (
        x.type.element.bits <= F32.bits
        and 1 << len(axis_owners(layout_of(x), axis).lanes) == target.warp_size
        and all(target.has_warp_reduce(kind, ty) for kind in kinds for ty in (I32, _order_type(x)))
    )


def _select_in_warp(
    b: LayoutBuilder, pairs: Sequence[Value], axis: int, kind: ArgKind, left: bool
) -> Sequence[Value]:
    """Select the best elements of warps, as integers of their order, with their indices.

    A warp reduces the integers, and then the indices of those that equal the result. That takes two
    instructions, where combining pairs takes ten shuffles and the comparisons between them.
    """
    owners = axis_owners(layout_of(pairs[0]), axis)
    order, index = _order(b, pairs[0], kind), pairs[1]
    if owners.warps:
        cut = 1 << len(owners.warps), 1 << len(owners.lanes)
        bits = (*owners.lanes, *owners.warps)
        order, index = (permute_and_split(b, x, axis, bits, cut) for x in (order, index))
    best = _reduce_in_warp(b, order, axis, _BEST[kind])
    first = ReduceKind.MIN if left else ReduceKind.MAX
    is_best = b(arith.cmp, order, _spread(b, best, axis, order), predicate=Predicate.EQ)
    index = b(arith.select, is_best, index, b.constant(_WORST[first], index.type))
    return [best, _reduce_in_warp(b, index, axis, first)]


_BEST = {ArgKind.MAX: ReduceKind.MAX, ArgKind.MIN: ReduceKind.MIN}
# The integers that no other is worse than.
_WORST = {ReduceKind.MAX: -(1 << 31), ReduceKind.MIN: (1 << 31) - 1}


def _spread(b: LayoutBuilder, reduced: Value, axis: int, like: Value) -> Value:
    """Return the result of a reduction in every element of a tile such as was reduced."""
    layout, extents = layout_of(like), like.type.shape
    if not isinstance(reduced.type, Tile):
        return b(shape.splat, reduced, shape=extents, layout=layout)
    wide = b(shape.expand_dims, reduced, axis=axis)
    return b(shape.broadcast, wide, shape=extents, layout=layout)


def _reduce_in_warp(b: LayoutBuilder, x: Value, axis: int, kind: ReduceKind) -> Value:
    region = elementwise_region(kind, x.type.element)
    (result,) = b.op(reduce_ops.reduce_region, x, axis=axis, regions=[region()]).results
    return result


def _order(b: LayoutBuilder, x: Value, kind: ArgKind) -> Value:
    """Return 32-bit integers in the order of elements; a NaN is worse than every number.

    The bits of floats are in order but for those of negative ones, which count down from -0.0.
    """
    element = x.type.element
    if not element.is_floating():
        return cast(b, x, _order_type(x))
    number = Expression(b, x).cast(F32)
    bits = number.view(I32)
    is_negative = bits < 0
    order = is_negative.select(bits.constant(_WORST[ReduceKind.MAX]) - bits, bits)
    return number.equals(number).select(order, _WORST[_BEST[kind]]).value


def _select_in_thread(
    b: LayoutBuilder, pairs: Sequence[Value], axis: int, bit: int, kind: ArgKind, left: bool
) -> list[Value]:
    """Select one of two elements, with its index, whose indices differ in a bit of registers.

    Lower bits of registers are done: without a comparison, the index is lower where the bit is 0.
    """
    sides = [_split_bit(b, value, axis, bit) for value in pairs]
    takes = (_ties_or_wins if left else _wins)(b, kind, *sides[0])
    return [b(arith.select, takes, own, other) for own, other in sides]


def _split_bit(b: LayoutBuilder, x: Value, axis: int, bit: int) -> Sequence[Value]:
    """Return the elements where a bit of the index along an axis is 0, and the others."""
    rank, extent = len(x.type.shape), x.type.shape[axis]
    others = [other for other in range(extent.bit_length() - 1) if other != bit]
    x = permute_and_split(b, x, axis, (*others, bit), (2, extent // 2))
    position = rank + axis
    order = (*(at for at in range(rank + 1) if at != position), position)
    return b.op(shape.split, b(shape.trans, x, order=order)).results


def reduce_region(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value] | None:
    """Decompose a `reduce_region`; None for one that a warp can do."""
    axis, layout = op["axis"], layout_of(op.inputs[0])
    if straight(layout, axis) == layout and not axis_owners(layout, axis).far(target.shuffles):
        return None
    return reduce_along(b, op.inputs, axis, clone_region(op.regions[0]), target)


def reduce_along(
    b: LayoutBuilder, xs: Sequence[Value], axis: int, region: Region, target: SimtTarget
) -> list[Value]:
    """Combine the elements of tiles along an axis.

    Each warp combines along the near bits. The few partial results go to every thread that needs
    the result, and each of these combines them. If they are many, warps exchange them, so that each
    combines a part of them, and then the results.
    """
    plain = straight(layout_of(xs[0]), axis)
    xs = [b.convert(x, plain) for x in xs]
    owners = axis_owners(layout_of(xs[0]), axis)
    near, far = owners.near(target.shuffles), owners.far(target.shuffles)
    if not far:
        return b.op(reduce_ops.reduce_region, *xs, axis=axis, regions=[region()]).results
    if near:
        cut = 1 << len(far), 1 << len(near)
        xs = [permute_and_split(b, x, axis, (*near, *far), cut) for x in xs]
        xs = b.op(reduce_ops.reduce_region, *xs, axis=axis, regions=[region()]).results
    own = layout_of(xs[0])
    gathered = nearer(own, axis, target.shuffles, gathered_bits(region(), target))
    repeated = instructions(region(), target) << len(gathered.images(REGISTER))
    pays = len(own.outs) > 1 and repeated >= target.tuning.repeated_instructions
    if not (pays and target.shuffles):
        return reduce_along(b, [b.convert(x, gathered) for x in xs], axis, region, target)
    results = reduce_along(
        b, [b.convert(x, exchanged(own, axis)) for x in xs], axis, region, target
    )
    return [b.convert(result, reduced_layout(own, axis)) for result in results]


def gathered_bits(region: Block, target: SimtTarget) -> int:
    """Return the number of register bits in which a thread gathers partial results.

    All threads repeat what is combined in registers; shuffles share it, and take longer.
    """
    most = target.tuning.gathered_instructions // instructions(region, target)
    return max(1, most).bit_length() - 1


def instructions(region: Block, target: SimtTarget) -> int:
    """Return the number of instructions that load a partial result and combine it with another."""
    loads = len(region.args) // 2
    return loads + sum(target.tuning.op_cost(op) for op in region if not op.defn.terminator)


def sum_along(b: LayoutBuilder, x: Value, axis: int, target: SimtTarget) -> Value:
    """Return the sum of integers along an axis."""
    region = elementwise_region(ReduceKind.SUM, x.type.element)
    return reduce_along(b, [x], axis, region, target)[0]
