"""Memory traces: counts of global accesses by source line and by array, of bounded size.

`with tile.trace() as trace:` returns a `Trace`. Memory is counted in the units that GPUs move:
sectors of 32 bytes and cache lines of 128. Allocations are assumed to begin at a multiple of 256
bytes, as device allocations do.
"""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.errors import Loc
from tile.late import late
from tile.raster import Array, Heat
from tile.spread import View
from tile.timeline import Timeline

if TYPE_CHECKING:
    from tile.pages.page import written
    from tile.pages.trace import trace_page
else:  # only pages need this library
    trace_page = late("tile.pages.trace", "trace_page")
    written = late("tile.pages.page", "written")

SECTOR = 32
LINE = 128
# Combinations of kernel, grid and arrays that are recorded; further ones are only counted.
MAX_KERNELS = 64
# Buckets of the reuse distance, the distance in launch order of two programs that touch the same
# line: 0, 1, 2 to 3, 4 to 7, ...
DISTANCES = 33

Grid = tuple[int, int, int]


@dataclass
class Counts:
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

    def add(self, other: Counts) -> None:
        """Add the counts of `other`."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def efficiency(self) -> float:
        """Requested bytes over bytes of touched sectors; above 1 if bytes are requested again."""
        return self.bytes / (self.sectors * SECTOR) if self.sectors else 1.0


@dataclass(frozen=True)
class Site:
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

    view: View
    reads: Heat = field(init=False)
    writes: Heat = field(init=False)
    bytes_read: int = 0
    bytes_written: int = 0
    sectors: int = 0
    lines: int = 0
    first: int = 0
    reuse: Array = field(default_factory=lambda: np.zeros(DISTANCES, np.int64))

    def __post_init__(self) -> None:
        self.reads, self.writes = Heat(self.view.raster()), Heat(self.view.raster())

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
    sites: dict[Site, Counts] = field(default_factory=dict)
    names: dict[Site, set[str]] = field(default_factory=dict)  # the arrays that each site accesses

    @property
    def total(self) -> Counts:
        """The sum over all operations."""
        total = Counts()
        for counts in self.sites.values():
            total.add(counts)
        return total

    def by_line(self) -> Iterator[tuple[Site, Counts]]:
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


def _order(site: Site) -> tuple[str, int, int, str]:
    loc = site.loc
    return ("", 0, 0, site.verb) if loc is None else (loc.file, loc.line, loc.column, site.verb)


@dataclass
class Trace:
    """The memory accesses of all recorded launches; true if there was any launch."""

    timeline: Timeline = field(default_factory=Timeline)
    launches: int = 0
    left_out: int = 0  # launches beyond `MAX_KERNELS`, which were not recorded
    _kernels: dict[Any, KernelUse] = field(default_factory=dict)

    def begin(self, kernel: str, grid: Grid, views: tuple[View, ...]) -> KernelUse:
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

    def to_html(self) -> str:
        """Return the trace as one self-contained HTML page."""
        page: str = trace_page(json.loads(self.to_json()))
        return page

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML page and return its path. Raises `ArgumentValueError` if that fails."""
        target: Path = written(path, self.to_html(), "the trace")
        return target

    def json(self, path: str | os.PathLike[str]) -> Path:
        """Write the counts as JSON and return the path. Raises `ArgumentValueError` on failure."""
        target: Path = written(path, self.to_json(indent=1) + "\n", "the trace")
        return target

    def perfetto(self, path: str | os.PathLike[str]) -> Path:
        """Write the timeline in the trace event format, which Perfetto and Chrome open.

        Raises `ArgumentValueError` if that fails.
        """
        text = json.dumps(self.timeline.as_dict(), separators=(",", ":"))
        target: Path = written(path, text, "the timeline")
        return target


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
            f"{share(counts.masked, counts.elements)} masked off\n    {source}"
        )


def share(part: int, whole: int) -> str:
    """Return `part` of `whole` as a percentage."""
    return f"{part / whole:.0%}" if whole else "0%"


def counted(entry: Mapping[str, Any]) -> Counts:
    """Return the counts of an entry of the JSON data."""
    return Counts(**{name: entry[name] for name in vars(Counts())})
