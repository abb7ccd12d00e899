"""What a planted bug is: a launch that has one fault, and its twin that has none.

A kernel with the constexpr `BUG` is both. The line at which the fault must be reported ends in
`# fault`; `program` and `element` are those that must be named, and `place` the address, as
argument and index, or as argument and number of the element where it is outside.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tile
from tile.errors import (
    BrokenAssumptionError,
    DataRaceError,
    DeadlockError,
    ExecutionError,
    IntegerOverflowError,
    OutOfBoundsError,
    UndefinedValueError,
)
from tile.faults import Fault

ERRORS: dict[str, type[ExecutionError]] = {
    "bounds": OutOfBoundsError,
    "race": DataRaceError,
    "undef": UndefinedValueError,
    "overflow": IntegerOverflowError,
    "assume": BrokenAssumptionError,
    "deadlock": DeadlockError,
}

Launch = Callable[[bool], None]


@dataclass(frozen=True)
class Planted:
    """A planted bug: `launch(True)` has the fault, `launch(False)` has none."""

    kind: str
    title: str
    launch: Launch
    program: tuple[int, int, int] | None
    element: tuple[int, ...] | None
    place: tuple[str, Any] | None
    other: tuple[int, int, int] | None

    @property
    def name(self) -> str:
        return self.launch.__name__

    def problems(self) -> list[str]:
        """What is wrong with how the two are reported; nothing, if all is right."""
        return [*self.faulty(), *self._collected(), *self.sound()]

    def faulty(self) -> list[str]:
        error = self.raised(True)
        if error is None:
            return ["the fault is not found"]
        wanted = ERRORS[self.kind]
        if type(error) is not wanted:
            return [f"found as {type(error).__name__}, not {wanted.__name__}: {error}"]
        problems = []
        loc = error.loc
        if loc is None or "# fault" not in linecache.getline(loc.file, loc.line):
            problems.append(f"found at another line: {error}")
        return problems + self._details(error.fault)

    def _details(self, fault: Fault | None) -> list[str]:
        if fault is None:
            return ["the error has no data"]
        place = fault.place
        other = None if fault.other is None else fault.other.program
        where = None if place is None else (place.argument, place.index or place.element)
        facts = (
            ("program", self.program, fault.program),
            ("element", self.element, fault.element),
            ("place", self.place, where),
            ("other program", self.other, other),
        )
        return [
            f"the {what} is {seen}, not {wanted}"
            for what, wanted, seen in facts
            if wanted is not None and seen != wanted
        ]

    def _collected(self) -> list[str]:
        """A run that goes on finds the same fault, and ends."""
        with tile.sanitize(collect=True) as report:
            self.launch(True)
        kinds = {group.check.value for group in report.groups}
        return [] if self.kind in kinds else [f"collected are {sorted(kinds)}"]

    def sound(self) -> list[str]:
        error = self.raised(False)
        return [] if error is None else [f"the sound twin is reported: {error}"]

    def raised(self, bug: bool) -> ExecutionError | None:
        """What a launch under all checks raises, if it does."""
        try:
            with tile.sanitize():
                self.launch(bug)
        except ExecutionError as error:
            return error
        return None


CASES: dict[str, Planted] = {}


def planted(
    kind: str,
    title: str,
    *,
    program: tuple[int, int, int] | None = None,
    element: tuple[int, ...] | None = None,
    place: tuple[str, Any] | None = None,
    other: tuple[int, int, int] | None = None,
) -> Callable[[Launch], Launch]:
    """Declare a planted bug."""

    def declare(launch: Launch) -> Launch:
        case = Planted(kind, title, launch, program, element, place, other)
        assert case.name not in CASES, case.name
        CASES[case.name] = case
        return launch

    return declare
