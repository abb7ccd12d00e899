"""The page of a trace, made from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tile.diagnostics.pages import render
from tile.diagnostics.pages.source_listing import Annotation, Listing, listings
from tile.diagnostics.pages.svg import (
    Drawing,
    Ink,
    array_subject,
    covered,
    heatmap_drawing,
    raster_of,
    scale,
    times,
    visible_rows,
)

Json = Mapping[str, Any]

# Bytes of a sector, the unit in which traffic is counted; see `tile/trace_data.py`.
SECTOR = 32
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
READ = Ink("read", "read")
WRITTEN = Ink("written", "written")
KINDS = {"reads": "read", "writes": "written", "updates": "written"}


@dataclass
class Figure:
    """A number with its name, and a note."""

    name: str
    value: str
    about: str = ""


@dataclass
class Row:
    """A memory operation in the table of a kernel."""

    location: str
    verb: str
    kind: str
    arrays: str
    executions: int
    bytes: str
    sectors: int
    lines: int
    requested: float
    masked: float


@dataclass
class ReuseDistance:
    """The number of touches of lines at a distance, and their share of all touches."""

    name: str
    count: int
    share: float


@dataclass
class Memory:
    """One array of a kernel."""

    key: str
    title: str
    figures: list[Figure]
    drawings: list[Drawing]
    reuse: list[ReuseDistance]


@dataclass
class Section:
    """A kernel over one grid, with arrays of the same shapes."""

    key: str
    kernel: str
    grid: str
    launches: int
    figures: list[Figure]
    listings: list[Listing]
    rows: list[Row]
    arrays: list[Memory]


def trace_page(trace: Json) -> str:
    """Return the page of a trace; sources are read from the files that locations name."""
    kernels = trace["kernels"]
    launches = trace["launches"]
    noun = "launch" if launches == 1 else "launches"
    return render(
        "trace.html",
        title=f"{launches:,} {noun}" if launches else "No launches",
        kernels=sorted({kernel["kernel"] for kernel in kernels}),
        left_out=trace["left_out"],
        sections=[_section(f"kernel-{n}", kernel) for n, kernel in enumerate(kernels, 1)],
    )


def _section(key: str, kernel: Json) -> Section:
    operations = kernel["operations"]
    return Section(
        key,
        kernel["kernel"],
        times(kernel["grid"]),
        kernel["launches"],
        list(_figures(kernel)),
        listings(_annotations(key, operations)),
        [_row(entry) for entry in operations],
        [_memory(f"{key}-array-{n}", use) for n, use in enumerate(kernel["arrays"])],
    )


def _figures(kernel: Json) -> Iterator[Figure]:
    total, arrays = kernel["total"], kernel["arrays"]
    requested, masked = shares(total)
    yield Figure("read", in_bytes(sum(use["bytes_read"] for use in arrays)))
    yield Figure("written", in_bytes(sum(use["bytes_written"] for use in arrays)))
    yield Figure("moved", in_bytes(total["sectors"] * SECTOR), f"{total['sectors']:,} sectors")
    yield Figure("asked for", f"{requested:.0%}", "of the bytes moved")
    yield Figure("masked off", f"{masked:.0%}", f"of {total['elements']:,} elements")


def shares(counts: Json) -> tuple[float, float]:
    """Return the shares of the moved bytes that were requested, and of elements masked off."""
    moved = counts["sectors"] * SECTOR
    requested = counts["bytes"] / moved if moved else 1.0
    return requested, counts["masked"] / counts["elements"] if counts["elements"] else 0.0


def in_bytes(number: float) -> str:
    """Return a number of bytes in the unit that leaves the fewest digits."""
    unit = 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:,.0f} B" if unit == 0 else f"{number:,.1f} {UNITS[unit]}"


def _annotations(key: str, operations: Sequence[Json]) -> Iterator[Annotation]:
    for entry in operations:
        loc = entry["loc"]
        if loc is not None:
            columns = loc["column"], max(loc["end_column"], loc["column"] + 1)
            text = f"{entry['verb']} {in_bytes(entry['bytes'])}"
            kind = KINDS[entry["verb"]]
            yield Annotation(loc["file"], loc["line"], columns, kind, text, f"{key}-lines")


def _row(entry: Json) -> Row:
    loc = entry["loc"]
    requested, masked = shares(entry)
    return Row(
        "" if loc is None else f"{loc['function']}:{loc['line']}",
        entry["verb"],
        KINDS[entry["verb"]],
        ", ".join(entry["arrays"]),
        entry["executions"],
        in_bytes(entry["bytes"]),
        entry["sectors"],
        entry["lines"],
        requested,
        masked,
    )


# -- arrays


def _memory(key: str, use: Json) -> Memory:
    view = use["view"]
    parts = ((use["reads"], READ, "Reads"), (use["writes"], WRITTEN, "Writes"))
    return Memory(
        key,
        f"{view['argument']}: {view['dtype']}, {times(view['shape']) or '1'}",
        list(_used(use)),
        [
            _drawing(f"{key}-{ink.word}", view, heatmap, ink, title)
            for heatmap, ink, title in parts
            if heatmap["counts"]
        ],
        list(_reuse(use)),
    )


def _used(use: Json) -> Iterator[Figure]:
    for word in ("read", "written"):
        if use[f"bytes_{word}"]:
            yield Figure(word, in_bytes(use[f"bytes_{word}"]))
    lines = f"{use['lines']:,} lines of 128 bytes"
    yield Figure("touched at all", in_bytes(use["sectors"] * SECTOR), lines)
    touches = use["first"] + sum(use["reuse"])
    if use["first"]:
        about = "programs and executions that touch a line, for each line"
        yield Figure("touches of a line", f"{touches / use['first']:.1f}", about)


def _drawing(key: str, view: Json, heatmap: Json, ink: Ink, title: str) -> Drawing:
    raster = raster_of(heatmap)
    area = visible_rows(raster, [])
    greatest = max(count for _, _, count in heatmap["counts"])
    caption = [
        f"A row is {raster.columns:,} elements of memory.",
        *scale(raster, "elements"),
        f"The strongest color is {greatest:,} times.",
    ]
    return heatmap_drawing(
        key, array_subject(view, raster), title, caption, area, heatmap, covered(raster), ink
    )


def _reuse(use: Json) -> Iterator[ReuseDistance]:
    """Yield touches of lines by the distance to the program that touched the line before."""
    total = use["first"] + sum(use["reuse"])
    counts = [("for the first time", use["first"])]
    counts += [(_distance(bits), count) for bits, count in enumerate(use["reuse"])]
    for name, count in counts:
        if count:
            yield ReuseDistance(name, count, count / total)


def _distance(bits: int) -> str:
    if bits == 0:
        return "after the program itself"
    if bits == 1:
        return "after an adjacent program"
    return f"after one {1 << (bits - 1):,} to {(1 << bits) - 1:,} programs away"
