"""The recorder of an op's first call, which notes the new arrays and the launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.frontend.python.source import DeviceFunction
from tile.instrumentation import Scoped
from tile.ir.types import Scalar
from tile.ops.core.array_arguments import Source, is_array
from tile.ops.core.call_records import (
    ArrayAt,
    CallPlan,
    Launch,
    NewArray,
    Varied,
    Varying,
)
from tile.ops.core.dependent_launches import is_dependent
from tile.ops.core.new_arrays import DType, Shape, maker_of
from tile.ops.core.separation import Separation


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


def launch(kernel: Any, grid: Any, *, dependent: bool = False) -> Callable[..., Any]:
    """Return the launch function of a kernel on a grid, `kernel[grid]`, for planned ops.

    With `dependent` the launch is a dependent one where it has few programs, or long ones.
    """
    recording = RECORDER()

    def launched(*arguments: Any, **options: Any) -> Any:
        if dependent:
            options["launch_pdl"] = is_dependent(grid, arguments)
        if recording is not None:
            recording.add_launch(kernel, grid, arguments, options)
        return kernel[grid](*(a.number if type(a) is Varying else a for a in arguments), **options)

    return launched


def _is_constant(value: Any) -> bool:
    """Return True for kernel arguments that a plan may keep: numbers, dtypes, functions, tuples."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or isinstance(value, int | float | str | Scalar | DeviceFunction)
