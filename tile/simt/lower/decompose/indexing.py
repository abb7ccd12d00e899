"""Decompose operations that move elements along an axis: gather, histogram, sort and flip.

`gather` and `histogram`, whose indices are data, go through shared memory. A sort is a bitonic
network: each step compares elements whose indices differ by an XOR. Two consecutive sorted runs are
merged: element i of the first run is compared with element i from the end of the second one, and
the lesser goes to the first half. Then each half is merged, each quarter, and so on.

    1 4 6 7 | 2 3 5 8     XOR 7   1 with 8, 4 with 5, 6 with 3, 7 with 2
    1 4 3 2 | 7 6 5 8     XOR 2   1 with 3, 4 with 2, 7 with 5, 6 with 8
    1 2 | 3 4 | 5 6 | 7 8 XOR 1
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from tile.ir.core import Operation, Value
from tile.ir.expressions import Expression
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, I32, number_of
from tile.simt import ops
from tile.simt.layouts.swizzle import swizzled
from tile.simt.lower.decompose.axis_split import (
    axis_owners,
    indices_along,
    permute_and_split,
    straight,
)
from tile.simt.lower.decompose.reduce import any_region, reduce_along
from tile.simt.ops.layout import butterfly
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import SimtTarget


def gather(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Store the tile to a buffer, from which each thread gathers, as do later gathers of it."""
    x, index = op.inputs
    buffer = _gathered_from(op, x) or stored(b, x)
    return [b(ops.shared.local_gather, buffer, index, axis=op["axis"])]


def _gathered_from(op: Operation, x: Value) -> Value | None:
    """Return the buffer to which an earlier gather in the block stored a tile, if there is one."""
    for user in x.users:
        if user.defn is ops.shared.local_store and user.block is op.block:
            buffer: Value = user["mem"]
            readers = [other for other in buffer.users if other is not user]
            if readers and all(other.defn is ops.shared.local_gather for other in readers):
                return buffer
    return None


def histogram(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Count in a buffer of zeros, to which all threads add atomically."""
    x, bins = op.inputs[0], op["bins"]
    buffer = stored(b, b.constant(0, op.result.type))
    mask = _in_range(b, x, op["mask"], bins)
    index = x if x.type.element == I32 else b(arith.cast, x, to=I32)
    b.op(ops.shared.local_atomic_inc, buffer, index, mask)
    return [b(ops.shared.local_load, buffer, result=op.result.type)]


def stored(b: LayoutBuilder, x: Value) -> Value:
    """Return a buffer with a tile, in row-major order."""
    return b.store(x, swizzled(x.type.shape, vector=1, per_phase=1, max_phase=1))


def _in_range(b: LayoutBuilder, x: Value, mask: Value | None, bins: int) -> Value:
    """Return the mask of the values that have a bin.

    Bounds that the element type cannot exceed are not compared with.
    """
    element = number_of(x.type)
    number = Expression(b, x)
    conditions = [] if mask is None else [Expression(b, mask)]
    if element.signed:
        conditions.append(number >= 0)
    if bins <= element.max_value:
        conditions.append(number < bins)
    if not conditions:
        return number.constant(True, I1).value
    return reduce(operator.and_, conditions).value


def sort(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Sort along an axis; floats are sorted as integers of the same order."""
    (x,), axis = op.inputs, op["axis"]
    element = number_of(x.type)
    x = b.convert(x, straight(layout_of(x), axis))
    x = _low_bits_to_registers(b, x, axis)
    if element.is_floating():
        x = _ordered_integers(Expression(b, x)).value
    extent = x.type.shape[axis]
    count = op["count"] or extent
    network = _Network(b, x, axis, op["descending"])
    x = network.first(x, count.bit_length() - 1)
    if count < extent:
        x = permute_and_split(b, x, axis, range(extent.bit_length() - 1), (extent // count, count))
        (x,) = reduce_along(b, [x], axis - 1, any_region(x.type.element), target)
    if element.is_floating():
        x = _mirrored(Expression(b, x)).view(element).value
    return [x]


def _low_bits_to_registers(b: LayoutBuilder, x: Value, axis: int) -> Value:
    """Return the elements permuted so that the low bits of their indices are in registers.

    Steps butterfly along these bits most often. The order before a sort does not matter.
    """
    owners = axis_owners(layout_of(x), axis)
    return permute_and_split(b, x, axis, owners.inner_first, (x.type.shape[axis],))


def sorted_integers(b: LayoutBuilder, x: Value, axis: int) -> Value:
    """Return integers in ascending order along an axis, along which their layout is straight."""
    x = _low_bits_to_registers(b, x, axis)
    return _Network(b, x, axis, False).first(x, x.type.shape[axis].bit_length() - 1)


class _Network:
    """The steps of the network along one axis, for tiles like `x`."""

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
        self.lower_masks: dict[int, Value] = {}

    def first(self, x: Value, sorted_bits: int) -> Value:
        """Sort the first `2 ** sorted_bits` elements; every run of that many becomes the same.

        Of two sorted runs, each element is compared with the one as far from the end of the other
        run; the winners are the first elements of both.
        """
        for bit in range(sorted_bits):
            x = self.step(x, bit, (2 << bit) - 1)
            x = self.merge(x, bit)
        for bit in range(sorted_bits, self.bits):
            other = self.b(butterfly, x, axis=self.axis, mask=1 << bit | (1 << sorted_bits) - 1)
            x = self.merge(self.b(self.pair[0], x, other), sorted_bits)
        return x

    def merge(self, x: Value, bits: int) -> Value:
        """Merge bitonic runs of `2 ** bits` elements."""
        for bit in reversed(range(bits)):
            x = self.step(x, bit, 1 << bit)
        return x

    def step(self, x: Value, bit: int, mask: int) -> Value:
        """Compare and exchange with the elements at XOR `mask`; those without `bit` take the first.

        First in the order of the sort.
        """
        other = self.b(butterfly, x, axis=self.axis, mask=mask)
        first, second = (self.b(defn, x, other) for defn in self.pair)
        return self.b(arith.select, self.lower(bit), first, second)

    def lower(self, bit: int) -> Value:
        """Return the mask of the elements whose index has a bit of 0."""

        def without(number: Value) -> Value:
            return (Expression(self.b, number) & (1 << bit)).equals(0).value

        if bit not in self.lower_masks:
            self.lower_masks[bit] = indices_along(self.b, self.like, self.axis, without)
        return self.lower_masks[bit]


def _ordered_integers(x: Expression) -> Expression:
    """Return signed integers in the order of floats; a NaN is the greatest."""
    nan = x.is_(Predicate.NE, x)
    number = _mirrored(x.signed())
    return nan.select(number.constant(number.element.max_value), number)


def _mirrored(number: Expression) -> Expression:
    """Reverse the order of negative numbers, by inverting their magnitude bits.

    A float's magnitude grows away from 0; an integer's bits grow towards it.
    """
    return number ^ ((number >> (number.bits - 1)) & number.element.max_value)


def flip(op: Operation, b: LayoutBuilder, target: SimtTarget) -> Sequence[Value]:
    """Reverse an axis by one exchange.

    Element i becomes the element at extent - 1 - i, which is i XOR (extent - 1).
    """
    (x,), axis = op.inputs, op["axis"]
    return [b(butterfly, x, axis=axis, mask=x.type.shape[axis] - 1)]
