"""Values whose live ranges do not overlap may share storage: run functions that way."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.observed import Run
from tests.analysis.random_ir import functions
from tests.sampling import examples
from tile.analysis.liveness import Liveness, LiveRange, liveness
from tile.ir.core import Function, Value
from tile.ir.module import Module
from tile.ir.printer import print_module

THOROUGH = examples(75)


class Storage(MutableMapping[Value, Any]):
    """A mapping from values to arrays, stored in as few of them as live ranges allow."""

    def __init__(self, result: Liveness) -> None:
        self.slots: dict[Value, int] = {}
        occupants: list[list[LiveRange]] = []
        for value in sorted(result.ranges, key=result.of):
            own = result.of(value)
            free = (i for i, rs in enumerate(occupants) if not any(own.overlaps(r) for r in rs))
            index = next(free, len(occupants))
            occupants += [[]] * (index == len(occupants))
            occupants[index] = [*occupants[index], own]
            self.slots[value] = index
        self.arrays: list[Any] = [None] * len(occupants)

    def __getitem__(self, value: Value) -> Any:
        return self.arrays[self.slots[value]]

    def __setitem__(self, value: Value, array: Any) -> None:
        self.arrays[self.slots[value]] = array

    def __delitem__(self, value: Value) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Value]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)


@THOROUGH
@given(function=functions(returning=True), x=st.integers(-9, 99), program=st.integers(0, 9))
def test_values_share_storage(function: Function, x: int, program: int) -> None:
    storage = Storage(liveness(function))
    separate = Run(lambda value, array: None, (program, 0, 0))
    shared = Run(lambda value, array: None, (program, 0, 0), values=storage)  # type: ignore[arg-type]
    expected = [array.tolist() for array in separate.function(function, [x, 7, 16])]
    actual = [array.tolist() for array in shared.function(function, [x, 7, 16])]
    assert actual == expected, print_module(Module([function]))


@THOROUGH
@given(function=functions())
def test_sweep_agrees_with_ranges(function: Function) -> None:
    result = liveness(function)
    for number, live in result.sweep():
        expected = {v for v, r in result.ranges.items() if r.start <= number < r.end}
        assert set(live) == expected


def test_overlaps() -> None:
    assert LiveRange(1, 3).overlaps(LiveRange(2, 4))
    assert not LiveRange(1, 3).overlaps(LiveRange(3, 4))
    assert not LiveRange(3, 4).overlaps(LiveRange(1, 3))
    assert LiveRange(1, 1).overlaps(LiveRange(1, 4)), "both are written at 1"
    assert LiveRange(2, 2).overlaps(LiveRange(1, 4))
    assert not LiveRange(4, 4).overlaps(LiveRange(1, 4)), "an operand makes room for a result"
