"""The record of a call of an op: its arrays, and its launches, which later calls repeat.

Arrays have positions: first those of the arguments, in order, where each array of a list has one,
then the new ones. An argument that is the same as an earlier one has its positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tile.ops.core.array_arguments import Arguments, Source, address_of
from tile.ops.core.new_arrays import DType, Maker, Shape
from tile.ops.core.separation import Separation

ALIGNMENT = 16  # bytes, of arrays that descriptors describe


@dataclass(frozen=True)
class Varying:
    """A kernel argument that follows from an argument of the op that is not part of the key.

    name: of that argument. function: returns the kernel argument for it.
    """

    name: str
    value: Any
    function: Callable[[Any], Any]

    @property
    def number(self) -> Any:
        """The kernel argument in this call."""
        return self.function(self.value)


class ArrayAt(NamedTuple):
    """The array at a position, in the arguments of a launch."""

    position: int


class Varied(NamedTuple):
    """A function of an argument of the op, in the arguments of a launch."""

    argument: int
    function: Callable[[Any], Any]


class NewArray(NamedTuple):
    """An array to allocate, of the library and on the device of the array at `like`."""

    like: int
    make: Maker
    shape: Shape
    dtype: DType


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments; arrays are `ArrayAt`, also in tuples."""

    kernel: Any
    grid: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def filled(self, values: Sequence[Any], arguments: Arguments) -> tuple[Any, ...]:
        """Return the arguments for a call with these arrays."""
        return tuple([_filled(item, values, arguments) for item in self.arguments])

    def start(self, values: Sequence[Any], arguments: Arguments) -> None:
        self.kernel[self.grid](*self.filled(values, arguments), **self.options)


def _filled(item: Any, values: Sequence[Any], arguments: Arguments) -> Any:
    if type(item) is ArrayAt:
        return values[item.position]
    if type(item) is Varied:
        return item.function(arguments[item.argument])
    if type(item) is tuple:
        return tuple([_filled(one, values, arguments) for one in item])
    return item


class CallPlan(NamedTuple):
    """A call of an op on other arrays.

    result: a position, or a tuple of positions. aligned: of arrays whose addresses are multiples of
    `ALIGNMENT`, which launches rely on.
    """

    sources: tuple[Source, ...]
    new: tuple[NewArray, ...]
    launches: tuple[Launch, ...]
    separation: Separation
    aligned: tuple[int, ...]
    result: Any

    def arrays(self, arguments: Arguments) -> list[Any]:
        """Return the arrays of the arguments, by position."""
        return [
            arguments[index] if at is None else arguments[index][at] for index, at in self.sources
        ]

    def allows(self, values: Sequence[Any]) -> bool:
        """Return True if the addresses are as the launches need them."""
        if any(address_of(values[position]) % ALIGNMENT for position in self.aligned):
            return False
        separation = self.separation
        if not separation.outputs:
            return True
        return separation.holds([address_of(values[at]) for at in separation.extents])

    def run(self, values: list[Any], arguments: Arguments) -> Any:
        """Return the result for arrays that it allows, to which it adds the new ones."""
        for like, make, shape, dtype in self.new:
            values.append(make(values[like], shape, dtype))
        for launch in self.launches:
            launch.start(values, arguments)
        result = self.result
        return values[result] if type(result) is int else tuple([values[at] for at in result])
