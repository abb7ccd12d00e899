"""A planted bug: a launch that has one fault, and its twin that has none.

A kernel with the constexpr `BUG` is both. The line at which the fault must be reported ends in
`# fault`; `program` and `element` are those that must be named, and `place` the address, as
argument and index, or as argument and number of the element where it is outside. Other kinds of
faults of the same access are named by notes of the error, and collected next to it.
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
from tile.location import Loc

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
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.launch.__name__

    def problems(self) -> list[str]:
        """Return the errors in the reports of the two; none if both are right."""
        return [*self.faulty(), *self._collected(), *self.sound()]

    def faulty(self) -> list[str]:
        error = self.raised(True)
        if error is None:
            return ["the fault is not found"]
        wanted = ERRORS[self.kind]
        if type(error) is not wanted:
            return [f"found as {type(error).__name__}, not {wanted.__name__}: {error}"]
        problems = []
        if not _has_line_comment(error.loc):
            problems.append(f"found at another line: {error}")
        problems.extend(
            f"the error has no note of {kind}"
            for kind in self.also
            if not any(note.startswith(f"also {kind}: ") for note in error.notes)
        )
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
        """A run that goes on finds the same faults, and ends."""
        with tile.sanitize(collect=True) as report:
            self.launch(True)
        kinds = {group.check.value for group in report.groups if _has_line_comment(group.loc)}
        wanted = {self.kind, *self.also}
        if self.kind == "deadlock":
            kinds = {group.check.value for group in report.groups}
        return [] if wanted <= kinds else [f"collected are {sorted(kinds)}"]

    def sound(self) -> list[str]:
        error = self.raised(False)
        return [] if error is None else [f"the sound twin is reported: {error}"]

    def raised(self, bug: bool) -> ExecutionError | None:
        """Return the error that a launch under all checks raises, if any."""
        try:
            with tile.sanitize():
                self.launch(bug)
        except ExecutionError as error:
            return error
        return None


def _has_line_comment(loc: Loc | None) -> bool:
    return loc is not None and "# fault" in linecache.getline(loc.file, loc.line)


CASES: dict[str, Planted] = {}


def planted(
    kind: str,
    title: str,
    *,
    program: tuple[int, int, int] | None = None,
    element: tuple[int, ...] | None = None,
    place: tuple[str, Any] | None = None,
    other: tuple[int, int, int] | None = None,
    also: tuple[str, ...] = (),
) -> Callable[[Launch], Launch]:
    """Declare a planted bug; `also` are other kinds of faults that the same access has."""

    def declare(launch: Launch) -> Launch:
        case = Planted(kind, title, launch, program, element, place, other, also)
        assert case.name not in CASES, case.name
        CASES[case.name] = case
        return launch

    return declare
