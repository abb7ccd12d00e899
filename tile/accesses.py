"""What launches do with memory, as data: counts by source line and by array, at bounded size.

`with tile.trace() as trace:` gives a `Trace`. Its unit of memory is what GPUs move: sectors of 32
bytes, and lines of 128. Arrays count as if their allocations began at a multiple of 256 bytes, as
those of devices do.
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
else:  # pages need a library that nothing else does
    trace_page = late("tile.pages.trace", "trace_page")
    written = late("tile.pages.page", "written")

SECTOR = 32
LINE = 128
# Kernels, grids and sets of arrays that are told apart; further ones are only counted.
KEPT = 64
# How far apart in launch order two programs may be that share a line: 0, 1, 2 to 3, 4 to 7, ...
DISTANCES = 33

Grid = tuple[int, int, int]


@dataclass
class Counts:
    """What the accesses of one operation came to, in all programs.

    Of `elements` some were `masked` off. `sectors` and `lines` count for each program those that
    one execution touches, so what a program asks for at once counts once.
    """

    executions: int = 0
    elements: int = 0
    masked: int = 0
    bytes: int = 0
    sectors: int = 0
    lines: int = 0

    def add(self, other: Counts) -> None:
        """Take what another counted."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def efficiency(self) -> float:
        """The share of the bytes of touched sectors that was asked for; above 1: several times."""
        return self.bytes / (self.sectors * SECTOR) if self.sectors else 1.0


@dataclass(frozen=True)
class Site:
    """A memory operation: where it stands, and what it does (reads, writes, updates)."""

    loc: Loc | None
    verb: str


@dataclass(eq=False)
class ArrayUse:
    """What programs did with one array.

    `reads` and `writes` count accesses to its elements; `sectors` and `lines` are those that were
    touched at all, in each launch. `reuse` counts, for each touch of a line by a program, how far
    away in launch order the program was that touched it before; `first` those that nobody did.
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
        """For JSON."""
        counted = ("bytes_read", "bytes_written", "sectors", "lines", "first")
        return {
            "view": asdict(self.view),
            "reads": self.reads.as_dict(),
            "writes": self.writes.as_dict(),
            **{name: getattr(self, name) for name in counted},
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
    names: dict[Site, set[str]] = field(default_factory=dict)  # the arrays that each reaches

    @property
    def total(self) -> Counts:
        """Of all operations together."""
        total = Counts()
        for counts in self.sites.values():
            total.add(counts)
        return total

    def by_line(self) -> Iterator[tuple[Site, Counts]]:
        """The operations in the order of the source."""
        yield from sorted(self.sites.items(), key=lambda pair: _order(pair[0]))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
    """What all launches did; true if there was any."""

    timeline: Timeline = field(default_factory=Timeline)
    launches: int = 0
    left_out: int = 0  # launches that were not recorded, for want of room
    _kernels: dict[Any, KernelUse] = field(default_factory=dict)

    def begin(self, kernel: str, grid: Grid, views: tuple[View, ...]) -> KernelUse:
        """A launch begins; what its accesses are counted in."""
        self.launches += 1
        key = kernel, grid, views
        use = self._kernels.get(key)
        if use is None:
            use = KernelUse(kernel, grid, [ArrayUse(view) for view in views])
            if len(self._kernels) < KEPT:
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
        return "\n\n".join("\n".join(_told(use)) for use in self.kernels)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the timeline is apart (`perfetto`)."""
        return {
            "launches": self.launches,
            "left_out": self.left_out,
            "kernels": [use.as_dict() for use in self.kernels],
        }

    def to_json(self, **options: Any) -> str:
        """The counts as JSON; `options` are those of `json.dumps`."""
        return json.dumps(self.as_dict(), **options)

    def to_html(self) -> str:
        """The trace as one page of HTML, which needs nothing beside itself."""
        page: str = trace_page(json.loads(self.to_json()))
        return page

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file; gives its path. Raises `ArgumentValueError` if that fails."""
        target: Path = written(path, self.to_html(), "the trace")
        return target

    def json(self, path: str | os.PathLike[str]) -> Path:
        """Write the counts as JSON to a file. Raises `ArgumentValueError` if that fails."""
        target: Path = written(path, self.to_json(indent=1) + "\n", "the trace")
        return target

    def perfetto(self, path: str | os.PathLike[str]) -> Path:
        """Write the timeline in the trace event format, which Perfetto and Chrome open.

        Raises `ArgumentValueError` if that fails.
        """
        text = json.dumps(self.timeline.as_dict(), separators=(",", ":"))
        target: Path = written(path, text, "the timeline")
        return target


def _told(use: KernelUse) -> Iterator[str]:
    times = "once" if use.launches == 1 else f"{use.launches:,} times"
    yield f"{use.kernel} over {use.grid}, launched {times}"
    for site, counts in use.by_line():
        loc = site.loc
        place = "" if loc is None else linecache.getline(loc.file, loc.line).strip()
        arrays = ", ".join(sorted(use.names[site])) or "nothing"
        yield (
            f"  line {0 if loc is None else loc.line}: {site.verb} {arrays}: "
            f"{counts.bytes:,} bytes, {counts.sectors:,} sectors ({counts.efficiency:.0%} asked "
            f"for), {share(counts.masked, counts.elements)} masked off\n    {place}"
        )


def share(part: int, whole: int) -> str:
    """A part of a whole in percent."""
    return f"{part / whole:.0%}" if whole else "0%"


def counted(entry: Mapping[str, Any]) -> Counts:
    """The counts in JSON."""
    return Counts(**{name: entry[name] for name in vars(Counts())})
