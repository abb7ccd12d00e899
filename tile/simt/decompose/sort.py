"""Sorting by a bitonic network: each step compares elements whose numbers differ by an XOR.

Two sorted runs side by side become one: element i is compared with the one as far from the end,
the lesser goes to the first half, and then halves are put in order, quarters, and so on.

    1 4 6 7 | 2 3 5 8     XOR 7   1 with 8, 4 with 5, 6 with 3, 7 with 2
    1 4 3 2 | 7 6 5 8     XOR 2   1 with 3, 4 with 2, 7 with 5, 6 with 8
    1 2 | 3 4 | 5 6 | 7 8 XOR 1
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, Scalar
from tile.simt.decompose import regions
from tile.simt.decompose.axes import along, recut
from tile.simt.decompose.holding import holders, straight
from tile.simt.decompose.reduce import reduce_along
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.ops.layout import exchange
from tile.simt.target import SimtTarget


def sort(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Floats are sorted as integers in the same order."""
    (x,), axis = op.inputs, op["axis"]
    element = x.type.element
    assert isinstance(element, Scalar)
    x = b.convert(x, straight(layout_of(x), axis))
    x = _low_bits_inside(b, x, axis)
    if element.is_floating():
        x = _number(b, x, element)
    extent = x.type.shape[axis]
    count = op["count"] or extent
    network = _Network(b, x, axis, op["descending"])
    x = network.first(x, count.bit_length() - 1)
    if count < extent:
        x = recut(b, x, axis, range(extent.bit_length() - 1), (extent // count, count))
        (x,) = reduce_along(b, [x], axis - 1, regions.either(x.type.element), target)
    if element.is_floating():
        x = _float(b, x, element)
    return [x]


def _low_bits_inside(b: LayoutBuilder, x: Value, axis: int) -> Value:
    """The elements in another order, so that low bits of their numbers are in registers.

    They are exchanged most often. What is to be sorted has no order to lose.
    """
    held = holders(layout_of(x), axis)
    return recut(b, x, axis, held.inner_first, (x.type.shape[axis],))


class _Network:
    """The steps along one axis, of tiles like `x`."""

    def __init__(self, b: LayoutBuilder, x: Value, axis: int, descending: bool) -> None:
        self.b = b
        self.axis = axis
        self.like = x
        self.bits = x.type.shape[axis].bit_length() - 1
        boolean = x.type.element == I1
        self.pair: tuple[OpDef, OpDef] = (
            (arith.and_, arith.or_) if boolean else (arith.min_, arith.max_)
        )
        if descending:
            self.pair = self.pair[::-1]
        self.halves: dict[int, Value] = {}

    def first(self, x: Value, kept: int) -> Value:
        """The first `2 ** kept` elements in order; runs of so many all along the axis are the same.

        Of two sorted runs, each element compared with the one as far from the end of the other, the
        winners are those in front.
        """
        for bit in range(kept):
            x = self.step(x, bit, (2 << bit) - 1)
            x = self.halve(x, bit)
        for bit in range(kept, self.bits):
            other = self.b(exchange, x, axis=self.axis, mask=1 << bit | (1 << kept) - 1)
            x = self.halve(self.b(self.pair[0], x, other), kept)
        return x

    def halve(self, x: Value, bits: int) -> Value:
        """Put runs of `2 ** bits` in order that rise and then fall."""
        for bit in reversed(range(bits)):
            x = self.step(x, bit, 1 << bit)
        return x

    def step(self, x: Value, bit: int, mask: int) -> Value:
        """Exchange with the elements at `mask`; those without `bit` keep what comes first."""
        other = self.b(exchange, x, axis=self.axis, mask=mask)
        first, second = (self.b(defn, x, other) for defn in self.pair)
        return self.b(arith.select, self.lower(bit), first, second)

    def lower(self, bit: int) -> Value:
        """Whether a bit of an element's number is 0."""

        def without(number: Value) -> Value:
            masked = self.b(arith.and_, number, self.b.constant(1 << bit, number.type))
            none = self.b.constant(0, number.type)
            return self.b(arith.cmp, masked, none, predicate=Predicate.EQ)

        if bit not in self.halves:
            self.halves[bit] = along(self.b, self.like, self.axis, without)
        return self.halves[bit]


def _number(b: LayoutBuilder, x: Value, element: Scalar) -> Value:
    """Floats as signed integers that are in their order; a NaN is the greatest."""
    bits = element.to(element.bits)
    nan = b(arith.cmp, x, x, predicate=Predicate.NE)
    number = _mirrored(b, b(arith.bitcast, x, to=bits), bits)
    return b(arith.select, nan, b.constant(bits.max_value, number.type), number)


def _float(b: LayoutBuilder, number: Value, element: Scalar) -> Value:
    """The floats that were made numbers."""
    return b(arith.bitcast, _mirrored(b, number, element.to(element.bits)), to=element)


def _mirrored(b: LayoutBuilder, number: Value, bits: Scalar) -> Value:
    """Negative numbers in reverse: a float's magnitude counts away from 0, an integer's bits up."""
    ones = b(arith.shr, number, b.constant(bits.bits - 1, number.type))
    return b(arith.xor, number, b(arith.and_, ones, b.constant(bits.max_value, number.type)))
