"""The faults that checks find, as data.

`Coverage` counts which launches were checked, and for what. An error of `tile.errors` that a
check raises has the `Fault` as its attribute `fault`. Under `with tile.sanitize(collect=True)`
nothing is raised, and a `FaultLog` collects all faults; `tile.diagnostics.sanitize` writes it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tile.checks import Check, Checks, LaunchKey, format_checks, parse_checks
from tile.heatmap import FaultExtent, FaultExtents
from tile.location import Loc, describe

# The most kernels that a line names; further ones are only counted.
MAX_NAMED = 8


@dataclass
class Coverage:
    """Counts of launches, by kernel, target and checks."""

    counts: dict[LaunchKey, int] = field(default_factory=dict)

    def add(self, launched: LaunchKey, times: int = 1) -> None:
        """Count launches."""
        self.counts[launched] = self.counts.get(launched, 0) + times

    @property
    def checked(self) -> bool:
        """True if a launch was checked for something."""
        return any(launched.checks for launched in self.counts)

    @property
    def unchecked(self) -> bool:
        """True if a launch was checked for nothing."""
        return not all(launched.checks for launched in self.counts)

    def verdict(self) -> str:
        """Return the first line of a report without faults."""
        if not self.checked:
            return "nothing was checked"
        return "no faults, but not all was checked" if self.unchecked else "no faults"

    def lines(self, *, checked: bool = True) -> Iterator[str]:
        """Yield a line for each set of checks that was done, and one for launches without any."""
        if checked and not self.counts:
            yield "no kernel was launched"
        for checks in dict.fromkeys(launched.checks for launched in self.counts):
            if checks and checked:
                yield f"checked for {format_checks(checks)}: {self._named(checks)}"
        if self.unchecked:
            yield f"not checked: {self._named(frozenset())}"

    def _named(self, checks: Checks) -> str:
        matching = [(key, count) for key, count in self.counts.items() if key.checks == checks]
        words = [
            f"{count:,} launch{'es' * (count != 1)} of `{key.kernel}` on {key.target}"
            for key, count in matching[:MAX_NAMED]
        ]
        rest = sum(count for _, count in matching[MAX_NAMED:])
        if rest:
            words.append(f"{rest:,} of {len(matching) - MAX_NAMED} more")
        return ", ".join(words)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the data for JSON."""
        return [
            {
                "kernel": key.kernel,
                "target": key.target,
                "checks": [check.value for check in Check if check in key.checks],
                "launches": count,
            }
            for key, count in self.counts.items()
        ]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Coverage:
        """Return the coverage that `as_list` wrote."""
        coverage = cls()
        for entry in entries:
            launched = LaunchKey(entry["kernel"], entry["target"], parse_checks(entry["checks"]))
            coverage.add(launched, entry["launches"])
        return coverage


Program = tuple[int, int, int]
Key = tuple[Check, frozenset[Loc | None]]

# The most faults that are recorded for one line; further ones are only counted.
MAX_FAULTS = 100


@dataclass(frozen=True)
class FaultAddress:
    """An accessed address, relative to the array through whose pointer it was computed.

    `element` is the offset in elements from the element at index 0, in memory order; `index`
    is the index in the array, or None for an address outside.
    """

    argument: str
    element: int
    index: tuple[int, ...] | None
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        if self.index is None:
            return f"`{self.argument}` at element {self.element}"
        return f"`{self.argument}[{', '.join(map(str, self.index))}]`"


@dataclass(frozen=True)
class RacingAccess:
    """The other access of a race: its program, verb (reads, writes) and source location."""

    program: Program
    verb: str
    loc: Loc | None
    argument: str  # the kernel argument through which it accesses the memory


@dataclass(frozen=True)
class Fault:
    """One fault in one execution of one operation.

    `program` and `element` (an index of the tile, empty for a scalar) locate the first wrong
    element; `count` of the `active` elements of this execution are wrong (active 0: not counted).
    `executions` is 1, except for a record that only counts further executions by other programs.
    A race is counted once for each element of memory, whichever programs are involved.
    """

    check: Check
    message: str
    kernel: str
    grid: Program
    program: Program
    loc: Loc | None = None
    element: tuple[int, ...] = ()
    place: FaultAddress | None = None
    count: int = 1
    active: int = 0
    executions: int = field(default=1, repr=False)
    other: RacingAccess | None = None
    cause: Loc | None = None  # the operation that made an undefined value, or that wrapped
    notes: tuple[str, ...] = ()
    extent: FaultExtent | None = field(
        default=None, repr=False, compare=False
    )  # all wrong elements

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON; locations have file, line, column and function."""
        data: dict[str, Any] = _plain(dataclasses.asdict(dataclasses.replace(self, extent=None)))
        del data["extent"], data["executions"]  # `FaultGroup` has their totals for the line
        return data

    @property
    def key(self) -> Key:
        """The key of the fault's group: the check and its line, or both lines of a race."""
        other = None if self.other is None else self.other.loc
        return self.check, frozenset({self.loc, self.loc if other is None else other})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.value if isinstance(value, Check) else value


@dataclass
class FaultGroup:
    """The faults of one check at one line: the first `MAX_FAULTS`, and totals of all.

    `loc` of a race is the line of the second access of the first race reported. `extents` merges
    the extents of all faults, by tile, grid and array.
    """

    key: Key
    check: Check
    loc: Loc | None
    faults: list[Fault] = field(default_factory=list)
    executions: int = 0
    elements: int = 0
    extents: FaultExtents = field(default_factory=FaultExtents)

    def add(self, fault: Fault) -> None:
        """Count a fault, and record it if it is among the first `MAX_FAULTS`."""
        self.executions += fault.executions
        self.elements += fault.count
        if fault.extent is not None:
            self.extents.add(fault.extent)
        if fault.executions == 1 and len(self.faults) < MAX_FAULTS:
            self.faults.append(dataclasses.replace(fault, extent=None))

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "check": self.check.value,
            "loc": None if self.loc is None else dataclasses.asdict(self.loc),
            "executions": self.executions,
            "elements": self.elements,
            **self.extents.as_dict(),
            "faults": [fault.as_dict() for fault in self.faults],
        }

    def __str__(self) -> str:
        first = self.faults[0]
        times = "once" if self.executions == 1 else f"in {self.executions} executions"
        elements = f"{self.elements} element{'s' * (self.elements != 1)}"
        if first.other is not None:
            times = elements
        elif first.place is not None or first.element:
            times = f"{elements}, {times}"
        lines = [f"{self.check}: {first.message} ({times})"]
        if self.loc is not None:
            lines.append(describe(self.loc))
        lines.extend(f"  note: {note}" for note in first.notes)
        return "\n".join(lines)


@dataclass
class FaultLog:
    """All faults, grouped by line and check; true if there is any.

    `coverage` counts the checked and the unchecked launches.
    """

    _groups: dict[Key, FaultGroup] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        key = fault.key
        if key not in self._groups:
            self._groups[key] = FaultGroup(key, fault.check, fault.loc)
        self._groups[key].add(fault)

    def remaining(self, fault: Fault) -> int:
        """Return the number of further faults like this one that the report can record."""
        group = self._groups.get(fault.key)
        return MAX_FAULTS if group is None else MAX_FAULTS - len(group.faults)

    @property
    def groups(self) -> list[FaultGroup]:
        """The faults by line and check, in the order of their first occurrence."""
        return list(self._groups.values())

    @property
    def faults(self) -> list[Fault]:
        """All recorded faults."""
        return [fault for group in self.groups for fault in group.faults]

    def __len__(self) -> int:
        return sum(group.executions for group in self.groups)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __str__(self) -> str:
        if not self:
            return "\n".join([self.coverage.verdict(), *self.coverage.lines()])
        return "\n\n".join([*self.paragraphs(), *self.coverage.lines(checked=False)])

    def paragraphs(self) -> list[str]:
        """Return the numbers of faults and places, then a paragraph for each line and check."""
        groups = len(self._groups)
        head = f"{len(self)} fault{'s' * (len(self) != 1)} at {groups} place{'s' * (groups != 1)}"
        return [head, *map(str, self.groups)]

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "faults": len(self),
            "groups": [group.as_dict() for group in self.groups],
            "coverage": self.coverage.as_list(),
        }

    def to_json(self, **options: Any) -> str:
        """Return the report as JSON; `options` are those of `json.dumps`."""
        return json.dumps(self.as_dict(), **options)
