"""Traces as data: accesses of global memory, counted by line and by array, and a timeline.

`with tile.trace() as trace:` fills a `TraceData`, whose size is bounded. Memory is counted in the
units that GPUs move: sectors of 32 bytes and cache lines of 128. Allocations are assumed to begin
at a multiple of 256 bytes, as device allocations do.

A timeline is converted to the trace event format, which Perfetto and Chrome open. The format is
described in "Trace Event Format" of the Chromium project. Events are `X` (a slice with `ts` and
`dur`) and `M` (names of tracks). A launch maps to a process, a program to a thread. Time is counted
in instructions of the interpreter, one per microsecond: it shows the order in which programs ran,
not how long they would take on a device.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from tile.heatmap import Array, ArrayView, Heatmap
from tile.location import Loc, line_of

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
class LaunchInfo:
    """A launch: the kernel's name and the grid."""

    kernel: str
    grid: tuple[int, int, int]


@dataclass
class Timeline:
    """Slices in execution order; `left_out` counts those beyond `MAX_SLICES`."""

    launches: list[LaunchInfo] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    now: int = 0
    events: int = 0
    left_out: int = 0

    def begin(self, kernel: str, grid: tuple[int, int, int]) -> int:
        """Begin a launch and return its number."""
        self.launches.append(LaunchInfo(kernel, grid))
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


SECTOR = 32
LINE = 128
# Combinations of kernel, grid and arrays that are recorded; further ones are only counted.
MAX_KERNELS = 64
# Buckets of the reuse distance, the distance in launch order of two programs that touch the same
# line: 0, 1, 2 to 3, 4 to 7, ...
REUSE_BUCKETS = 33

Grid = tuple[int, int, int]


class Totals:
    """Counters that add up field by field."""

    def add(self, other: Self) -> None:
        """Add the counts of `other`."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Counts(Totals):
    """Totals of one memory operation over all programs.

    `masked` of the `elements` were masked off. `sectors` and `lines` are counted per program and
    execution: one execution counts each sector or line that it touches once.
    """

    executions: int = 0
    elements: int = 0
    masked: int = 0
    bytes: int = 0
    sectors: int = 0
    lines: int = 0

    @property
    def efficiency(self) -> float:
        """Requested bytes over bytes of touched sectors; above 1 if bytes are requested again."""
        return self.bytes / (self.sectors * SECTOR) if self.sectors else 1.0


@dataclass(frozen=True)
class AccessSite:
    """A memory operation: its location, and a verb (reads, writes, updates)."""

    loc: Loc | None
    verb: str


@dataclass(eq=False)
class ArrayUse:
    """The accesses of all programs to one array.

    `reads` and `writes` count accesses per element; `sectors` and `lines` count those touched at
    least once in a launch. `reuse` is a histogram over the touches of a line by a program: the
    distance in launch order to the program that touched it before. `first` counts first touches.
    """

    view: ArrayView
    reads: Heatmap = field(init=False)
    writes: Heatmap = field(init=False)
    bytes_read: int = 0
    bytes_written: int = 0
    sectors: int = 0
    lines: int = 0
    first: int = 0
    reuse: Array = field(default_factory=lambda: np.zeros(REUSE_BUCKETS, np.int64))

    def __post_init__(self) -> None:
        self.reads, self.writes = Heatmap(self.view.raster()), Heatmap(self.view.raster())

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        counters = ("bytes_read", "bytes_written", "sectors", "lines", "first")
        return {
            "view": asdict(self.view),
            "reads": self.reads.as_dict(),
            "writes": self.writes.as_dict(),
            **{name: getattr(self, name) for name in counters},
            "reuse": np.trim_zeros(self.reuse, "b").tolist(),
        }


@dataclass(eq=False)
class KernelUse:
    """All launches of a kernel over one grid with arrays of the same shapes."""

    kernel: str
    grid: Grid
    arrays: list[ArrayUse]
    launches: int = 0
    sites: dict[AccessSite, Counts] = field(default_factory=dict)
    names: dict[AccessSite, set[str]] = field(
        default_factory=dict
    )  # the arrays that each site accesses

    @property
    def total(self) -> Counts:
        """The sum over all operations."""
        total = Counts()
        for counts in self.sites.values():
            total.add(counts)
        return total

    def by_line(self) -> Iterator[tuple[AccessSite, Counts]]:
        """Yield the operations in source order."""
        yield from sorted(self.sites.items(), key=lambda pair: _order(pair[0]))

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "kernel": self.kernel,
            "grid": self.grid,
            "launches": self.launches,
            "total": vars(self.total),
            "operations": [
                {
                    "loc": None if site.loc is None else asdict(site.loc),
                    "verb": site.verb,
                    "arrays": sorted(self.names[site]),
                    **vars(counts),
                }
                for site, counts in self.by_line()
            ],
            "arrays": [use.as_dict() for use in self.arrays],
        }


def _order(site: AccessSite) -> tuple[str, int, int, str]:
    loc = site.loc
    return ("", 0, 0, site.verb) if loc is None else (loc.file, loc.line, loc.column, site.verb)


@dataclass
class TraceData:
    """The memory accesses of all recorded launches; true if there was any launch."""

    timeline: Timeline = field(default_factory=Timeline)
    launches: int = 0
    left_out: int = 0  # launches beyond `MAX_KERNELS`, which were not recorded
    _kernels: dict[Any, KernelUse] = field(default_factory=dict)

    def begin(self, kernel: str, grid: Grid, views: tuple[ArrayView, ...]) -> KernelUse:
        """Begin a launch and return the `KernelUse` that counts its accesses."""
        self.launches += 1
        key = kernel, grid, views
        use = self._kernels.get(key)
        if use is None:
            use = KernelUse(kernel, grid, [ArrayUse(view) for view in views])
            if len(self._kernels) < MAX_KERNELS:
                self._kernels[key] = use
            else:
                self.left_out += 1
        use.launches += 1
        return use

    @property
    def kernels(self) -> list[KernelUse]:
        """The launches, by kernel, grid and shapes of arrays."""
        return list(self._kernels.values())

    def __bool__(self) -> bool:
        return bool(self._kernels)

    def __str__(self) -> str:
        if not self:
            return "no launches"
        return "\n\n".join("\n".join(_summary(use)) for use in self.kernels)

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON, without the timeline (see `perfetto`)."""
        return {
            "launches": self.launches,
            "left_out": self.left_out,
            "kernels": [use.as_dict() for use in self.kernels],
        }

    def to_json(self, **options: Any) -> str:
        """Return the counts as JSON; `options` are those of `json.dumps`."""
        return json.dumps(self.as_dict(), **options)


def _summary(use: KernelUse) -> Iterator[str]:
    times = "once" if use.launches == 1 else f"{use.launches:,} times"
    yield f"{use.kernel} over {use.grid}, launched {times}"
    for site, counts in use.by_line():
        loc = site.loc
        source = "" if loc is None else linecache.getline(loc.file, loc.line).strip()
        arrays = ", ".join(sorted(use.names[site])) or "nothing"
        yield (
            f"  line {0 if loc is None else loc.line}: {site.verb} {arrays}: "
            f"{counts.bytes:,} bytes, {counts.sectors:,} sectors ({counts.efficiency:.0%} used), "
            f"{percentage(counts.masked, counts.elements)} masked off\n    {source}"
        )


def percentage(part: int, whole: int) -> str:
    """Return `part` of `whole` as a percentage."""
    return f"{part / whole:.0%}" if whole else "0%"
