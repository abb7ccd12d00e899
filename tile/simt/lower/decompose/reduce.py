"""Decompose reductions and scans of any layout, by kind and by region.

All become `reduce_region` and `scan_region`, whose regions combine two groups of scalars into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone
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
    in_register_order,
    indices_along,
    nearer,
    permute_and_split,
    straight,
)
from tile.simt.ops.layout import butterfly
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
            return [b(COMBINE_OPS[kind], *x, *y, propagate_nan=propagate_nan)]
        return [b(COMBINE_OPS[kind], *x, *y)]

    return partial(_region, [element], combine)


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


def running_sum_along(b: LayoutBuilder, x: Value, axis: int, target: SimtTarget) -> Value:
    """Return the sum of each integer and those before it along an axis, in any layout."""
    region = elementwise_region(ReduceKind.SUM, x.type.element)
    return _Scan(b, region, False, target).scan_along([x], axis)[0]


def scan(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace a `scan` by `scan_region`, with a region in place of its kind."""
    (x,) = op.inputs
    element = accumulator(op["kind"], x.type.element)
    scanning = _Scan(b, elementwise_region(op["kind"], element), op["reverse"], target)
    (result,) = scanning.scan_along([cast(b, x, element)], op["axis"])
    return [cast(b, result, x.type.element)]


def scan_region(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value] | None:
    """Decompose a `scan_region`; None if a warp can do it, with contiguous elements a thread."""
    axis, layout = op["axis"], layout_of(op.inputs[0])
    if in_register_order(layout, axis) == layout and not axis_owners(layout, axis).far(
        target.shuffles
    ):
        return None
    scanning = _Scan(b, clone_region(op.regions[0]), op["reverse"], target)
    return scanning.scan_along(op.inputs, axis)


class _Scan:
    """Scans by one region in one direction.

    An axis that warps share is split in two: near runs of contiguous elements, and the run index.
    Each warp scans its runs. The totals of the runs, their last elements, are scanned themselves,
    and the total of all earlier runs is combined with each element of a run.
    """

    def __init__(self, b: LayoutBuilder, region: Region, reverse: bool, target: SimtTarget) -> None:
        self.b = b
        self.region = region
        self.reverse = reverse
        self.shuffles = target.shuffles
        self.has_warp_or = target.has_warp_reduce(ReduceKind.OR, I32)
        self.gathered_bits = gathered_bits(region(), target)

    def scan_along(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """Return the scan along an axis, in any layout."""
        ordered = in_register_order(layout_of(xs[0]), axis)
        xs = [self.b.convert(x, ordered) for x in xs]
        owners = axis_owners(ordered, axis)
        near, far = owners.near(self.shuffles), owners.far(self.shuffles)
        if not far:
            return self.scan_in_warp(xs, axis)
        if near:
            return self.runs(xs, axis, (1 << len(far), 1 << len(near)))
        return self.gathered(xs, axis)

    def scan_in_warp(self, xs: Sequence[Value], axis: int) -> list[Value]:
        return self.b.op(
            reduce_ops.scan_region, *xs, axis=axis, reverse=self.reverse, regions=[self.region()]
        ).results

    def gathered(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """Scan along an axis whose bits are all far, after making some of them near."""
        layout = nearer(layout_of(xs[0]), axis, self.shuffles, self.gathered_bits)
        return self.scan_along([self.b.convert(x, layout) for x in xs], axis)

    def runs(self, xs: Sequence[Value], axis: int, cut: tuple[int, int]) -> list[Value]:
        """Scan along an axis whose highest bits are far.

        cut: the number of runs, and their length.
        """
        b, bits = self.b, range(cut[0].bit_length() + cut[1].bit_length() - 2)
        scanned = self.scan_in_warp([permute_and_split(b, x, axis, bits, cut) for x in xs], axis)
        totals = self.totals(scanned, axis)
        whole, own = layout_of(scanned[0]), layout_of(totals[0])
        before = []
        for moved in self.shifted(self.gathered(totals, axis), axis):
            x = b(shape.expand_dims, b.convert(moved, own), axis=axis)
            before.append(b(shape.broadcast, x, shape=scanned[0].type.shape, layout=whole))
        first = indices_along(b, scanned[0], axis - 1, partial(self.is_first, cut[0]))
        results = [
            b(arith.select, first, alone, mask)
            for alone, mask in zip(scanned, self.combined(before, scanned), strict=True)
        ]
        return [b(shape.reshape, result, shape=xs[0].type.shape) for result in results]

    def totals(self, scanned: Sequence[Value], axis: int) -> list[Value]:
        """Return the last element of each run, by a reduction to the greatest index.

        Or of 32 bits by one that is 0 elsewhere, where a warp takes an instruction for that.
        """
        b = self.b
        if self.has_warp_or and all(x.type.element in (I32, U32, F32) for x in scanned):
            last = indices_along(b, scanned[0], axis, partial(self.is_last, scanned[0], axis))
            return [self.only(x, last, axis) for x in scanned]
        region = last_region([x.type.element for x in scanned], self.reverse)
        groups = [*scanned, indices_along(b, scanned[0], axis)]
        return b.op(reduce_ops.reduce_region, *groups, axis=axis, regions=[region()]).results[:-1]

    def only(self, x: Value, mask: Value, axis: int) -> Value:
        """Return the element along an axis where a mask is true, bit by bit."""
        bits = Expression(self.b, mask).select(Expression(self.b, x).view(I32), 0)
        region = elementwise_region(ReduceKind.OR, I32)
        one = self.b(reduce_ops.reduce_region, bits.value, axis=axis, regions=[region()])
        return Expression(self.b, one).view(number_of(x.type)).value

    def is_last(self, like: Value, axis: int, number: Value) -> Value:
        """Return, as an i1, whether an index is that of the last element of a run."""
        last = 0 if self.reverse else like.type.shape[axis] - 1
        return Expression(self.b, number).equals(last).value

    def is_first(self, count: int, number: Value) -> Value:
        """Return, as an i1, whether a run is the first one."""
        return Expression(self.b, number).equals(count - 1 if self.reverse else 0).value

    def shifted(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """Return the predecessor of each element along an axis; any element for the first one.

        Subtracting 1 from an index flips its lowest k + 1 bits, where k is the number of trailing
        zeros: it is an XOR with 2^(k+1) - 1. In reverse, adding 1 does so for trailing ones.
        """
        b, bits = self.b, xs[0].type.shape[axis].bit_length() - 1
        moved = [b(butterfly, x, axis=axis, mask=1) for x in xs]
        for bit in range(1, bits):
            low = (1 << bit) - 1
            carries = indices_along(b, xs[0], axis, partial(self.ends_in, low))
            for number, x in enumerate(xs):
                further = b(butterfly, x, axis=axis, mask=2 * low + 1)
                moved[number] = b(arith.select, carries, further, moved[number])
        return moved

    def ends_in(self, low: int, number: Value) -> Value:
        """Return, as an i1, whether the bits of `low` are all 0, or for a reverse scan all 1."""
        return (Expression(self.b, number) & low).equals(low if self.reverse else 0).value

    def combined(self, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        """Combine two tiles elementwise, by a scan of pairs."""
        b = self.b
        pairs = [b(shape.join, x, y) for x, y in zip(xs, ys, strict=True)]
        scanned = b.op(reduce_ops.scan_region, *pairs, axis=-1, regions=[self.region()]).results
        return [b.op(shape.split, pair).results[1] for pair in scanned]
