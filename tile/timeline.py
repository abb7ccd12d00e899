"""Timelines of programs in the trace event format, which Perfetto and Chrome open.

The format is described in "Trace Event Format" of the Chromium project. Events are `X` (a slice
with `ts` and `dur`) and `M` (names of tracks). A launch maps to a process, a program to a thread.
Time is counted in instructions of the interpreter, one per microsecond: it shows the order in which
programs ran, not how long they would take on a device.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.errors import Loc, line_of

# The most programs of a launch that have a track, and the most slices of all tracks together.
TRACKS = 64
MAX_SLICES = 100_000
# The most characters of the source line that names a slice.
NAME_LENGTH = 60

Numbers = Mapping[str, int]


@dataclass
class Slice:
    """Consecutive instructions of one source line, executed by some programs at the same time."""

    launch: int
    programs: Sequence[int]
    loc: Loc | None
    kind: str  # load, store, atomic or compute
    start: int
    end: int
    numbers: Sequence[Numbers] = ()  # counters of each program, if there are any


@dataclass
class Launched:
    """A launch: the kernel's name and the grid."""

    kernel: str
    grid: tuple[int, int, int]


@dataclass
class Timeline:
    """Slices in execution order; `left_out` counts those beyond `MAX_SLICES`."""

    launches: list[Launched] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    now: int = 0
    events: int = 0
    left_out: int = 0

    def begin(self, kernel: str, grid: tuple[int, int, int]) -> int:
        """Begin a launch and return its number."""
        self.launches.append(Launched(kernel, grid))
        return len(self.launches) - 1

    def step(
        self,
        launch: int,
        programs: Sequence[int],
        loc: Loc | None,
        kind: str,
        numbers: Sequence[Numbers] = (),
    ) -> None:
        """Record that some programs executed one instruction.

        Instructions of one source line form one slice, except that one with `numbers` has its own.
        """
        start, self.now = self.now, self.now + 1
        if not programs:
            return
        last = self.slices[-1] if self.slices else None
        if (
            last is not None
            and not numbers
            and not last.numbers
            and last.end == start
            and (last.launch, last.kind, last.programs) == (launch, kind, programs)
            and _line(last.loc) == _line(loc)
        ):
            last.end = self.now
        elif self.events + len(programs) > MAX_SLICES:
            self.left_out += len(programs)
        else:
            self.events += len(programs)
            self.slices.append(Slice(launch, programs, loc, kind, start, self.now, numbers))

    def as_dict(self) -> dict[str, Any]:
        """Return the timeline in the format's JSON object form."""
        return {
            "traceEvents": [*self._names(), *self._slices()],
            "displayTimeUnit": "ns",
            "otherData": {
                "time": "instructions of the interpreter, one to a microsecond",
                "slices left out": str(self.left_out),
                "programs with a track": f"the first {TRACKS} of each launch",
            },
        }

    def _names(self) -> Iterator[dict[str, Any]]:
        seen: dict[int, set[int]] = {}
        for part in self.slices:
            seen.setdefault(part.launch, set()).update(part.programs)
        for number, programs in seen.items():
            launch = self.launches[number]
            name = f"launch {number + 1}: {launch.kernel} {launch.grid}"
            yield _named("process_name", number, 0, name=name)
            yield _named("process_sort_index", number, 0, sort_index=number)
            for program in sorted(programs):
                title = f"program {program} {_coordinates(program, launch.grid)}"
                yield _named("thread_name", number, program, name=title)
                yield _named("thread_sort_index", number, program, sort_index=program)

    def _slices(self) -> Iterator[dict[str, Any]]:
        for part in self.slices:
            loc = part.loc
            line = "" if loc is None else linecache.getline(loc.file, loc.line).strip()
            where = "unknown" if loc is None else line_of(loc.file, loc.line)
            for index, program in enumerate(part.programs):
                numbers = part.numbers[index] if part.numbers else {}
                yield {
                    "name": line[:NAME_LENGTH] or part.kind,
                    "cat": part.kind,
                    "ph": "X",
                    "ts": part.start,
                    "dur": part.end - part.start,
                    "pid": part.launch + 1,
                    "tid": program + 1,
                    "args": {"line": where, **numbers},
                }


def _named(kind: str, launch: int, program: int, **values: Any) -> dict[str, Any]:
    return {
        "name": kind,
        "ph": "M",
        "ts": 0,
        "pid": launch + 1,
        "tid": program + 1,
        "args": values,
    }


def _coordinates(program: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = grid
    return program % x, program // x % y, program // (x * y)


def _line(loc: Loc | None) -> tuple[str, int] | None:
    return None if loc is None else (loc.file, loc.line)
