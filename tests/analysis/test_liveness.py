"""Values whose live ranges do not overlap may share a place: run functions that way."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.observed import Run
from tests.analysis.random_ir import functions
from tile.analysis.liveness import Liveness, LiveRange, liveness
from tile.ir.core import Function, Module, Value
from tile.ir.printer import print_module

THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


class Places(MutableMapping[Value, Any]):
    """What is known of each value, kept in as few places as live ranges allow."""

    def __init__(self, found: Liveness) -> None:
        self.place: dict[Value, int] = {}
        taken: list[list[LiveRange]] = []
        for value in sorted(found.ranges, key=found.of):
            own = found.of(value)
            free = (i for i, held in enumerate(taken) if not any(own.overlaps(r) for r in held))
            index = next(free, len(taken))
            taken += [[]] * (index == len(taken))
            taken[index] = [*taken[index], own]
            self.place[value] = index
        self.held: list[Any] = [None] * len(taken)

    def __getitem__(self, value: Value) -> Any:
        return self.held[self.place[value]]

    def __setitem__(self, value: Value, array: Any) -> None:
        self.held[self.place[value]] = array

    def __delitem__(self, value: Value) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Value]:
        return iter(self.place)

    def __len__(self) -> int:
        return len(self.place)


@THOROUGH
@given(function=functions(returning=True), x=st.integers(-9, 99), program=st.integers(0, 9))
def test_values_share_places(function: Function, x: int, program: int) -> None:
    found = liveness(function)
    apart = Run(lambda value, array: None, (program, 0, 0))
    shared = Run(lambda value, array: None, (program, 0, 0), known=Places(found))  # type: ignore[arg-type]
    wanted = [array.tolist() for array in apart.function(function, [x, 7, 16])]
    given = [array.tolist() for array in shared.function(function, [x, 7, 16])]
    assert given == wanted, print_module(Module([function]))


@THOROUGH
@given(function=functions())
def test_the_sweep_shows_what_the_ranges_say(function: Function) -> None:
    found = liveness(function)
    for number, live in found.sweep():
        wanted = {v for v, r in found.ranges.items() if r.start <= number < r.end}
        assert set(live) == wanted


def test_what_overlaps() -> None:
    assert LiveRange(1, 3).overlaps(LiveRange(2, 4))
    assert not LiveRange(1, 3).overlaps(LiveRange(3, 4))
    assert not LiveRange(3, 4).overlaps(LiveRange(1, 3))
    assert LiveRange(1, 1).overlaps(LiveRange(1, 4)), "both are written at 1"
    assert LiveRange(2, 2).overlaps(LiveRange(1, 4))
    assert not LiveRange(4, 4).overlaps(LiveRange(1, 4)), "an operand makes room for a result"
