"""What programs do one after the other, in the trace event format that Perfetto and Chrome open.

The format: "Trace Event Format", the document of the Chromium project; events are `X` (a slice with
`ts` and `dur`) and `M` (names of tracks). A launch is a process there, a program a thread. Time is
counted in instructions of the interpreter, one to a microsecond: which program did what before
which, not how long it would take on a machine.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.errors import Loc, line_of

# Programs of a launch that have a track, and slices of all tracks together.
TRACKS = 64
MOST = 100_000
# Characters of a source line that a slice is called by.
NAMED = 60

Numbers = Mapping[str, int]


@dataclass
class Slice:
    """A run of instructions of one source line: in some programs, at one time."""

    launch: int
    programs: Sequence[int]
    loc: Loc | None
    kind: str  # load, store, atomic or compute
    start: int
    end: int
    numbers: Sequence[Numbers] = ()  # of each program, if there are any


@dataclass
class Launched:
    """What a launch is called, and where its programs stand."""

    kernel: str
    grid: tuple[int, int, int]


@dataclass
class Timeline:
    """Slices in the order in which they ran; `left_out` are those beyond `MOST`."""

    launches: list[Launched] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    now: int = 0
    events: int = 0
    left_out: int = 0

    def begin(self, kernel: str, grid: tuple[int, int, int]) -> int:
        """A launch begins; its number."""
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
        """One instruction has run in some programs; numbers make it a slice of its own."""
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
        elif self.events + len(programs) > MOST:
            self.left_out += len(programs)
        else:
            self.events += len(programs)
            self.slices.append(Slice(launch, programs, loc, kind, start, self.now, numbers))

    def as_dict(self) -> dict[str, Any]:
        """The object form of the format."""
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
                title = f"program {program} {_place(program, launch.grid)}"
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
                    "name": line[:NAMED] or part.kind,
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


def _place(program: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = grid
    return program % x, program // x % y, program // (x * y)


def _line(loc: Loc | None) -> tuple[str, int] | None:
    return None if loc is None else (loc.file, loc.line)
