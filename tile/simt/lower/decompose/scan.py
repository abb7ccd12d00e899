"""Decompose scans of any layout, by kind and by region, into `scan_region`.

Its region combines two groups of scalars into one, as that of `reduce_region` does (`reduce.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.expressions import Expression
from tile.ir.ops import arith, shape
from tile.ir.ops import reduce as reduce_ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import F32, I32, U32, Type, number_of
from tile.simt.lower.decompose.axis_split import (
    axis_owners,
    in_register_order,
    indices_along,
    nearer,
    permute_and_split,
)
from tile.simt.lower.decompose.reduce import (
    Region,
    accumulator,
    cast,
    clone_region,
    combining_region,
    elementwise_region,
    gathered_bits,
)
from tile.simt.ops.layout import butterfly
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import SimtTarget


def last_region(elements: Sequence[Type], reverse: bool) -> Region:
    """Return the region that selects the group with the greater index, its last element.

    reverse: select the group with the lesser index.
    """
    predicate = Predicate.LT if reverse else Predicate.GT

    def combine(b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        later = b(arith.cmp, x[-1], y[-1], predicate=predicate)
        return [b(arith.select, later, own, other) for own, other in zip(x, y, strict=True)]

    return partial(combining_region, [*elements, I32], combine)


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
