"""Records of the calls of ops: the arrays that a first call made, and its launches.

Arrays have positions: first those of the arguments, in order, where each array of a list has one,
then the new ones. An argument that is the same as an earlier one has its positions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tile.frontend.python.source import DeviceFunction
from tile.instrumentation import Scoped
from tile.ir.types import Scalar
from tile.ops.core.new_arrays import DType, Maker, Shape, maker_of
from tile.runtime.arguments.overlap import overlapping
from tile.runtime.arguments.torch_tensors import is_plain_tensor

ALIGNMENT = 16  # bytes, of arrays that descriptors describe

Arguments = Sequence[Any]  # of a call, all parameters in order
Source = tuple[int, int | None]
"""An argument's index, and for an array of a list its index there."""


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


def _filled(item: Any, values: Sequence[Any], arguments: Arguments) -> Any:
    if type(item) is ArrayAt:
        return values[item.position]
    if type(item) is Varied:
        return item.function(arguments[item.argument])
    if type(item) is tuple:
        return tuple([_filled(one, values, arguments) for one in item])
    return item


class Separation(NamedTuple):
    """Arrays to write, which must not overlap others.

    extents: the bytes of each array, by position. outputs: by the position of each array to write,
    the positions of those that may be the same array.
    """

    extents: Mapping[int, int]
    outputs: Mapping[int, frozenset[int]]

    def holds(self, addresses: Sequence[int]) -> bool:
        """Return True for addresses, one for each of `extents`, at which the arrays lie apart."""
        positions = [*self.extents]
        ends = [*map(operator.add, addresses, self.extents.values())]
        for i, j in overlapping(addresses, ends):
            one, other = positions[i], positions[j]
            written = one in self.outputs or other in self.outputs
            if written and not (addresses[i] == addresses[j] and self.may_be_one(one, other)):
                return False
        return True

    def may_be_one(self, one: int, other: int) -> bool:
        """Return True if an array to write and another one may be the same array."""
        return other in self.outputs.get(one, ()) or one in self.outputs.get(other, ())

    def keeps_apart(self, one: int, other: int) -> bool:
        """Return True if two arrays, of which one is written, share no memory if this holds."""
        written = one in self.outputs or other in self.outputs
        return written and one in self.extents and other in self.extents


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
            launch.kernel[launch.grid](*launch.filled(values, arguments), **launch.options)
        result = self.result
        return values[result] if type(result) is int else tuple([values[at] for at in result])


@dataclass
class Recorder:
    """The arrays and launches of a first call.

    names: of the parameters. values: the arrays by position.
    """

    names: Sequence[str]
    sources: tuple[Source, ...]
    values: list[Any]
    new: list[NewArray] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    extents: dict[int, int] = field(default_factory=dict)
    outputs: dict[int, frozenset[int]] = field(default_factory=dict)
    aligned: list[int] = field(default_factory=list)
    complete: bool = True

    def __post_init__(self) -> None:
        self._positions = {id(value): at for at, value in enumerate(self.values)}

    def refuse(self) -> None:
        """Make no plan: the call depends on more than its key."""
        self.complete = False

    def add_new(self, like: Any, value: Any, shape: Shape, dtype: DType) -> None:
        kind: type = type(like)
        self.new.append(NewArray(self.position(like), maker_of(kind), shape, dtype))
        self._positions[id(value)] = len(self.values)
        self.values.append(value)

    def add_operand(self, value: Any, span: int) -> None:
        """Note the bytes that an array spans; negative if it is not known where it starts."""
        self.extents.setdefault(self.position(value), span)

    def add_output(self, value: Any, same: Sequence[Any]) -> None:
        """Note an array to write, and those that may be the same array."""
        at = self.position(value)
        others = {self.position(other) for other in same}
        self.outputs[at] = self.outputs.get(at, frozenset()) | others

    def add_aligned(self, value: Any) -> None:
        self.aligned.append(self.position(value))

    def add_launch(
        self, kernel: Any, grid: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        if not all(map(_is_constant, options.values())):
            self.refuse()
        self.launches.append(Launch(kernel, grid, tuple(map(self._item, arguments)), options))

    def _item(self, value: Any) -> Any:
        """Return an argument of a launch for the plan."""
        if type(value) is Varying:
            return Varied(self.names.index(value.name), value.function)
        if is_array(value):
            return ArrayAt(self.position(value))
        if type(value) is tuple:
            return tuple(map(self._item, value))
        if not _is_constant(value):
            self.refuse()
        return value

    def position(self, value: Any) -> int:
        """Return the position of an array; there is no plan for one that was made elsewhere."""
        position = self._positions.get(id(value), -1)
        if position < 0:
            self.refuse()
        return position

    def plan(self, result: Any) -> CallPlan | None:
        """Return the plan of a call with this result, or None."""
        if type(result) is tuple and all(map(is_array, result)):
            positions: Any = tuple(map(self.position, result))
        elif is_array(result):
            positions = self.position(result)
        else:
            return None
        if self.outputs and min(self.extents.values()) < 0:
            return None
        if not self.complete:
            return None
        return CallPlan(
            self.sources,
            tuple(self.new),
            tuple(self.launches),
            Separation(self.extents, self.outputs),
            tuple(self.aligned),
            positions,
        )


RECORDER: Scoped[Recorder | None] = Scoped("tile_ops_recorder", None)


def recorder() -> Recorder | None:
    """Return the recorder of the call that is running, or None."""
    return RECORDER()


def launch(kernel: Any, grid: Any) -> Callable[..., Any]:
    """Return the launch function of a kernel on a grid, `kernel[grid]`, for planned ops."""
    recording = RECORDER()

    def launched(*arguments: Any, **options: Any) -> Any:
        if recording is not None:
            recording.add_launch(kernel, grid, arguments, options)
        return kernel[grid](*(a.number if type(a) is Varying else a for a in arguments), **options)

    return launched


def sources_of(arguments: Arguments) -> Iterator[tuple[Source, Any]]:
    """Yield the arrays of a call's arguments, without arguments that are the same as earlier ones.

    Arrays that are the same in another way are yielded twice.
    """
    for index, value in enumerate(arguments):
        if any(same_arrays(value, earlier) for earlier in arguments[:index]):
            continue
        if is_array(value):
            yield (index, None), value
        elif is_array_list(value):
            yield from (((index, at), item) for at, item in enumerate(value))


def same_arrays(one: Any, other: Any) -> bool:
    """Return True if two arguments are one array, or lists of the same arrays."""
    if is_array_list(one) and is_array_list(other):
        return one is other or (len(one) == len(other) and all(map(operator.is_, one, other)))
    return one is other and is_array(one)


def is_array(value: Any) -> bool:
    """Return True for arrays of the kinds that plans support."""
    return type(value) is np.ndarray or is_plain_tensor(type(value))


def is_array_list(value: Any) -> bool:
    """Return True for a list or tuple of one such array or more."""
    return type(value) in (list, tuple) and bool(value) and all(map(is_array, value))


def _is_constant(value: Any) -> bool:
    """Return True for kernel arguments that a plan may keep: numbers, dtypes, functions, tuples."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or isinstance(value, int | float | str | Scalar | DeviceFunction)


def address_of(array: Any) -> int:
    """Return the address of an array's first element."""
    address: int = array.ctypes.data if type(array) is np.ndarray else array.data_ptr()
    return address
