"""Pointers that reach other elements in each iteration of a loop.

for %k = %b to %e step 1024 {
%p = addptr (splat %x), (%k + arange 0 to 1024)    // %x + %k + i1, 0 <= i1 < 1024
store %p, %v
}
"""

from __future__ import annotations

from functools import cached_property

from tile.analysis.index_forms import IndexForms, NoFormError, index_forms
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import control
from tile.ir.types import Tile


class Strides:
    """The distances by which iterations of loops move the pointers of a function."""

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
            form, step = self.forms.of(pointer), self.forms.of(loop.inputs[2])
            base, by_axis = self.forms.by_axis(form.polynomial)
        except NoFormError:
            return False
        index = self.forms.number(loop.regions[0].args[0])
        change = base.coefficient(index)
        invariant = (atom for atom in base.atoms() if atom != index)
        multiples = [coefficient.number for coefficient in by_axis.values()]
        if (
            form.wraps
            or step.wraps
            or change.number is None
            or None in multiples
            or any(self.forms.varies(loop, atom) for atom in invariant)
        ):
            return False
        shape = pointer.type.shape if isinstance(pointer.type, Tile) else ()
        reach = sum(
            abs(multiple or 0) * (shape[axis] - 1)
            for axis, multiple in zip(by_axis, multiples, strict=True)
        )
        distance = self.forms.interval(step.polynomial * change)
        return distance is not None and (distance.low > reach or distance.high < -reach)
