"""Pointers that reach no element in common, so that no barrier is needed between their accesses.

*Addresses* may differ as they are not congruent modulo a power of two (`are_apart`):

    %a = addptr (splat %x), %i * 4        // %x + 16 * k bytes, for some k
    %b = addptr %a, splat 1               // %x + 16 * k + 4

No two elements of these pointers to f32 overlap, whatever %i is, in whichever threads and
iterations of a loop.

*Tiles* may lie side by side (`Strides.are_side_by_side`):

    %a = addptr (splat %x), arange 0 to 1024                     // %x + i1, 0 <= i1 < 1024
    %b = addptr (splat %x), (arange 0 to 1024 + splat 1024)      // %x + i1 + 1024

*Iterations* of a loop may each move a pointer beyond the elements of the one before (`Strides`):

    for %k = %b to %e step 1024 {
      %p = addptr (splat %x), (%k + arange 0 to 1024)    // %x + %k + i1, 0 <= i1 < 1024
      store %p, %v
    }
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from tile.analysis.index_forms import IndexForms, NoFormError, index_forms
from tile.analysis.interval import Interval, add
from tile.analysis.polynomial import Polynomial
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, control, memory, shape
from tile.ir.types import Kind, Pointer, Scalar, Tile
from tile.simt import ops

# Integers wrap modulo 2 to their width, which is a multiple of this modulus from 32 bits on.
_WIDTH = 32
_MODULUS = 1 << _WIDTH

# Operations whose result has the elements of the first operand.
REARRANGING = (
    shape.broadcast,
    shape.expand_dims,
    shape.reshape,
    shape.splat,
    shape.trans,
    ops.layout.convert_layout,
)


@dataclass(frozen=True)
class Congruence:
    """The class of all numbers `remainder` plus a multiple of `modulus`, a power of two."""

    modulus: int
    remainder: int

    def __add__(self, other: Congruence) -> Congruence:
        modulus = math.gcd(self.modulus, other.modulus)
        return Congruence(modulus, (self.remainder + other.remainder) % modulus)

    def times(self, number: int) -> Congruence:
        """Return the class of the numbers of this one times `number`."""
        modulus = math.gcd(self.modulus * number, _MODULUS)
        return Congruence(modulus, self.remainder * number % modulus)


_ANY = Congruence(1, 0)


def are_apart(x: Value, y: Value) -> bool:
    """Return True if no elements of two pointers overlap, as their addresses are not congruent."""
    base, of_x = _address(x)
    other_base, of_y = _address(y)
    if base is not other_base or not _is_parameter(base):
        return False
    distance = of_x + of_y.times(-1)
    return _size(y) <= distance.remainder <= distance.modulus - _size(x)


def _size(pointer: Value) -> int:
    element = pointer.type.element
    assert isinstance(element, Pointer)
    return element.pointee.itemsize


def _is_parameter(value: Value) -> bool:
    """Return True for a parameter of the function, which is one value in all iterations."""
    return value.op is None and value.block.parent is None


def _address(pointer: Value) -> tuple[Value, Congruence]:
    """Return the pointer that another one is computed from, and the distance in bytes."""
    distance = Congruence(_MODULUS, 0)
    while (op := pointer.op) is not None:
        if op.defn is memory.addptr:
            pointer, offset = op.inputs
            distance += congruence_of(offset).times(op["stride"])
        elif op.defn in REARRANGING:
            pointer = op.inputs[0]
        else:
            break
    return pointer, distance


def congruence_of(value: Value) -> Congruence:
    """Return a class that has all elements of an integer value."""
    number = constant_of(value)
    if isinstance(number, int):
        return Congruence(_MODULUS, int(number) % _MODULUS)
    op, element = value.op, value.type.element
    if op is None or not isinstance(element, Scalar) or element.kind is not Kind.INT:
        return _ANY
    if element.bits < _WIDTH:
        return _ANY
    if op.defn in REARRANGING or op.defn is arith.cast:
        return congruence_of(op.inputs[0])
    if op.defn is arith.add:
        return congruence_of(op.inputs[0]) + congruence_of(op.inputs[1])
    if op.defn is arith.sub:
        return congruence_of(op.inputs[0]) + congruence_of(op.inputs[1]).times(-1)
    if op.defn is arith.mul:
        return _multiplied(*op.inputs)
    if op.defn is arith.shl:
        count = constant_of(op.inputs[1])
        return congruence_of(op.inputs[0]).times(1 << count) if isinstance(count, int) else _ANY
    return _ANY


def _multiplied(x: Value, y: Value) -> Congruence:
    for value, other in ((x, y), (y, x)):
        number = constant_of(other)
        if isinstance(number, int):
            return congruence_of(value).times(int(number))
    return _ANY


class Strides:
    """The distances between pointers of a function, and by which iterations of loops move them."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @cached_property
    def forms(self) -> IndexForms:
        return index_forms(self.function)

    def moves_on(self, loop: Operation, pointer: Value) -> bool:
        """Return True if no two iterations of a loop reach the same element through a pointer.

        Each iteration moves it by more than the distance of the elements of its tile.
        """
        if loop.defn is not control.for_ or pointer.block is not loop.regions[0]:
            return False
        try:
            base, reach = self._base_and_reach(pointer)
            step = self.forms.of(loop.inputs[2])
        except NoFormError:
            return False
        index = self.forms.number(loop.regions[0].args[0])
        change = base.coefficient(index)
        invariant = (atom for atom in base.atoms() if atom != index)
        if (
            step.wraps
            or change.number is None
            or any(self.forms.varies(loop, atom) for atom in invariant)
        ):
            return False
        size = reach.high - reach.low
        distance = self.forms.interval(step.polynomial * change)
        return distance is not None and (distance.low > size or distance.high < -size)

    def are_side_by_side(self, x: Value, y: Value) -> bool:
        """Return True if no elements of two pointers overlap, as one's are all before the other's.

        Values that both are computed from are those of one iteration of each loop.
        """
        if x.type.element != y.type.element:
            return False
        try:
            (base, of_x), (other_base, of_y) = map(self._base_and_reach, (x, y))
        except NoFormError:
            return False
        distance = (other_base - base).number
        return distance is not None and (
            distance + of_y.low > of_x.high or distance + of_y.high < of_x.low
        )

    def _base_and_reach(self, pointer: Value) -> tuple[Polynomial, Interval]:
        """Return the address of a pointer's tile, in elements, and the distances of its elements.

        Raises `NoFormError`.
        """
        form = self.forms.of(pointer)
        base, by_axis = self.forms.by_axis(form.polynomial)
        if form.wraps:
            raise NoFormError("a remainder may not count up along an axis")
        shape = pointer.type.shape if isinstance(pointer.type, Tile) else ()
        reach = Interval(0, 0)
        for axis, coefficient in by_axis.items():
            if coefficient.number is None:
                raise NoFormError("an index is multiplied by no constant")
            last = coefficient.number * (shape[axis] - 1)
            reach = add(reach, Interval(min(last, 0), max(last, 0)))
        return base, reach
