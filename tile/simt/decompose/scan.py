"""Decompose `scan`, and `scan_by` of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, combine, shape
from tile.ir.ops.arith import Predicate
from tile.simt.decompose.axes import indices_along, permute_and_split
from tile.simt.decompose.holding import axis_owners, in_register_order, nearer
from tile.simt.decompose.reduce import accumulator, cast
from tile.simt.decompose.regions import Region, clone_region, elementwise_region, last_region
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.ops.layout import exchange
from tile.simt.target import SimtTarget


def scan(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Replace a `scan` by `scan_by`, with a region in place of its kind."""
    (x,) = op.inputs
    element = accumulator(op["kind"], x.type.element)
    scanning = _Scan(b, elementwise_region(op["kind"], element), op["reverse"], target)
    (result,) = scanning.scan_along([cast(b, x, element)], op["axis"])
    return [cast(b, result, x.type.element)]


def scan_by(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value] | None:
    """Decompose a `scan_by`; None for one that a warp can do, with contiguous elements a thread."""
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
            combine.scan_by, *xs, axis=axis, reverse=self.reverse, regions=[self.region()]
        ).results

    def gathered(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """Scan along an axis whose bits are all far, after making some of them near."""
        layout = nearer(layout_of(xs[0]), axis, self.shuffles)
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
        """Return the last element of each run, by a reduction to the greatest index."""
        b = self.b
        region = last_region([x.type.element for x in scanned], self.reverse)
        groups = [*scanned, indices_along(b, scanned[0], axis)]
        return b.op(combine.reduce_by, *groups, axis=axis, regions=[region()]).results[:-1]

    def is_first(self, count: int, number: Value) -> Value:
        """Return, as an i1, whether a run is the first one."""
        b = self.b
        first = b.constant(count - 1 if self.reverse else 0, number.type)
        return b(arith.cmp, number, first, predicate=Predicate.EQ)

    def shifted(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """Return the predecessor of each element along an axis; any element for the first one.

        Subtracting 1 from an index flips its lowest k + 1 bits, where k is the number of trailing
        zeros: it is an XOR with 2^(k+1) - 1. In reverse, adding 1 does so for trailing ones.
        """
        b, bits = self.b, xs[0].type.shape[axis].bit_length() - 1
        moved = [b(exchange, x, axis=axis, mask=1) for x in xs]
        for bit in range(1, bits):
            low = (1 << bit) - 1
            carries = indices_along(b, xs[0], axis, partial(self.ends_in, low))
            for number, x in enumerate(xs):
                further = b(exchange, x, axis=axis, mask=2 * low + 1)
                moved[number] = b(arith.select, carries, further, moved[number])
        return moved

    def ends_in(self, low: int, number: Value) -> Value:
        """Return, as an i1, whether the bits of `low` are all 0, or for a reverse scan all 1."""
        b = self.b
        masked = b(arith.and_, number, b.constant(low, number.type))
        target = b.constant(low if self.reverse else 0, number.type)
        return b(arith.cmp, masked, target, predicate=Predicate.EQ)

    def combined(self, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        """Combine two tiles elementwise, by a scan of pairs."""
        b = self.b
        pairs = [b(shape.join, x, y) for x, y in zip(xs, ys, strict=True)]
        scanned = b.op(combine.scan_by, *pairs, axis=-1, regions=[self.region()]).results
        return [b.op(shape.split, pair).results[1] for pair in scanned]
