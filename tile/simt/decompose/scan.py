"""Scans within warps: `scan`, and `scan_by` of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, combine, shape
from tile.ir.ops.arith import Predicate
from tile.simt.decompose import regions
from tile.simt.decompose.axes import along, recut
from tile.simt.decompose.holding import holders, in_order, nearer
from tile.simt.decompose.reduce import accumulator, cast
from tile.simt.decompose.regions import Region
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.ops.layout import exchange
from tile.simt.target import SimtTarget


def scan(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """The region says what the kind did."""
    (x,) = op.inputs
    element = accumulator(op["kind"], x.type.element)
    scanning = _Scan(b, regions.combining(op["kind"], element), op["reverse"], target)
    (result,) = scanning.along([cast(b, x, element)], op["axis"])
    return [cast(b, result, x.type.element)]


def scan_by(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value] | None:
    """One that a warp can do, each thread on a run of neighbours, stays as it is."""
    axis, layout = op["axis"], layout_of(op.inputs[0])
    if in_order(layout, axis) == layout and not holders(layout, axis).far(target.shuffles):
        return None
    scanning = _Scan(b, regions.copy_of(op.regions[0]), op["reverse"], target)
    return scanning.along(op.inputs, axis)


class _Scan:
    """Scans by one region in one direction.

    An axis that warps share is cut in two: runs of neighbours that are near, and their numbers.
    Each warp scans its runs. What they come to, their last elements, is scanned in turn, and what
    is in front of each run is combined with all its elements.
    """

    def __init__(self, b: LayoutBuilder, region: Region, reverse: bool, target: SimtTarget) -> None:
        self.b = b
        self.region = region
        self.reverse = reverse
        self.shuffles = target.shuffles

    def along(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """The scan along an axis, in whatever layout suits that."""
        ordered = in_order(layout_of(xs[0]), axis)
        xs = [self.b.convert(x, ordered) for x in xs]
        held = holders(ordered, axis)
        near, far = held.near(self.shuffles), held.far(self.shuffles)
        if not far:
            return self.near(xs, axis)
        if near:
            return self.runs(xs, axis, (1 << len(far), 1 << len(near)))
        return self.gathered(xs, axis)

    def near(self, xs: Sequence[Value], axis: int) -> list[Value]:
        return self.b.op(
            combine.scan_by, *xs, axis=axis, reverse=self.reverse, regions=[self.region()]
        ).results

    def gathered(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """An axis that is all far, brought nearer."""
        layout = nearer(layout_of(xs[0]), axis, self.shuffles)
        return self.along([self.b.convert(x, layout) for x in xs], axis)

    def runs(self, xs: Sequence[Value], axis: int, cut: tuple[int, int]) -> list[Value]:
        """An axis that is far at its highest bits: as many runs as `cut` says, each so long."""
        b, bits = self.b, range(cut[0].bit_length() + cut[1].bit_length() - 2)
        scanned = self.near([recut(b, x, axis, bits, cut) for x in xs], axis)
        totals = self.totals(scanned, axis)
        whole, own = layout_of(scanned[0]), layout_of(totals[0])
        before = []
        for moved in self.shifted(self.gathered(totals, axis), axis):
            x = b(shape.expand_dims, b.convert(moved, own), axis=axis)
            before.append(b(shape.broadcast, x, shape=scanned[0].type.shape, layout=whole))
        first = along(b, scanned[0], axis - 1, partial(self.is_first, cut[0]))
        results = [
            b(arith.select, first, alone, both)
            for alone, both in zip(scanned, self.combined(before, scanned), strict=True)
        ]
        return [b(shape.reshape, result, shape=xs[0].type.shape) for result in results]

    def totals(self, scanned: Sequence[Value], axis: int) -> list[Value]:
        """The last element of each run: the one with the greatest index, as a reduction."""
        b = self.b
        region = regions.latest([x.type.element for x in scanned], self.reverse)
        groups = [*scanned, along(b, scanned[0], axis)]
        return b.op(combine.reduce_by, *groups, axis=axis, regions=[region()]).results[:-1]

    def is_first(self, count: int, number: Value) -> Value:
        """Whether nothing is in front of a run."""
        b = self.b
        first = b.constant(count - 1 if self.reverse else 0, number.type)
        return b(arith.cmp, number, first, predicate=Predicate.EQ)

    def shifted(self, xs: Sequence[Value], axis: int) -> list[Value]:
        """The elements in front of each along an axis; in front of the first one is any.

        Counting on changes some of the lowest bits of a number, from 1 up to all: where the bits
        below bit k are those that carry, it is XOR with 2^(k+1) - 1.
        """
        b, bits = self.b, xs[0].type.shape[axis].bit_length() - 1
        moved = [b(exchange, x, axis=axis, mask=1) for x in xs]
        for bit in range(1, bits):
            low = (1 << bit) - 1
            carries = along(b, xs[0], axis, partial(self.ends_in, low))
            for place, x in enumerate(xs):
                further = b(exchange, x, axis=axis, mask=2 * low + 1)
                moved[place] = b(arith.select, carries, further, moved[place])
        return moved

    def ends_in(self, low: int, number: Value) -> Value:
        """Whether the lowest bits are 0, or for a reverse scan, 1."""
        b = self.b
        masked = b(arith.and_, number, b.constant(low, number.type))
        wanted = b.constant(low if self.reverse else 0, number.type)
        return b(arith.cmp, masked, wanted, predicate=Predicate.EQ)

    def combined(self, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        """Each element of a tile combined with one of another: a scan of pairs."""
        b = self.b
        pairs = [b(shape.join, x, y) for x, y in zip(xs, ys, strict=True)]
        scanned = b.op(combine.scan_by, *pairs, axis=-1, regions=[self.region()]).results
        return [b.op(shape.split, pair).results[1] for pair in scanned]
