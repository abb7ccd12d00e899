"""The page of a trace, made from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tile.diagnostics.pages import render
from tile.diagnostics.pages.source_listing import Annotation, listings
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


def _section(key: str, kernel: Json) -> Json:
    """Return the template's variables of a kernel over one grid."""
    operations = kernel["operations"]
    return {
        **kernel,
        "key": key,
        "grid": times(kernel["grid"]),
        "figures": list(_figures(kernel)),
        "listings": listings(_annotations(key, operations)),
        "rows": list(map(_row, operations)),
        "arrays": [_array(f"{key}-array-{n}", use) for n, use in enumerate(kernel["arrays"])],
    }


def _figure(name: str, value: str, about: str = "") -> Json:
    """Return a number with its name, and a note."""
    return {"name": name, "value": value, "about": about}


def _figures(kernel: Json) -> Iterator[Json]:
    total, arrays = kernel["total"], kernel["arrays"]
    requested, masked = shares(total)
    yield _figure("read", in_bytes(sum(use["bytes_read"] for use in arrays)))
    yield _figure("written", in_bytes(sum(use["bytes_written"] for use in arrays)))
    yield _figure("moved", in_bytes(total["sectors"] * SECTOR), f"{total['sectors']:,} sectors")
    yield _figure("asked for", f"{requested:.0%}", "of the bytes moved")
    yield _figure("masked off", f"{masked:.0%}", f"of {total['elements']:,} elements")


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


def _row(entry: Json) -> Json:
    """Return a memory operation's row in the table of its kernel."""
    loc = entry["loc"]
    requested, masked = shares(entry)
    return {
        **entry,
        "location": "" if loc is None else f"{loc['function']}:{loc['line']}",
        "kind": KINDS[entry["verb"]],
        "arrays": ", ".join(entry["arrays"]),
        "bytes": in_bytes(entry["bytes"]),
        "requested": requested,
        "masked": masked,
    }


# -- arrays


def _array(key: str, use: Json) -> Json:
    """Return the template's variables of one array of a kernel."""
    view = use["view"]
    parts = ((use["reads"], READ, "Reads"), (use["writes"], WRITTEN, "Writes"))
    return {
        "key": key,
        "title": f"{view['argument']}: {view['dtype']}, {times(view['shape']) or '1'}",
        "figures": list(_used(use)),
        "drawings": [
            _drawing(f"{key}-{ink.word}", view, heatmap, ink, title)
            for heatmap, ink, title in parts
            if heatmap["counts"]
        ],
        "reuse": list(_reuse(use)),
    }


def _used(use: Json) -> Iterator[Json]:
    for word in ("read", "written"):
        if use[f"bytes_{word}"]:
            yield _figure(word, in_bytes(use[f"bytes_{word}"]))
    lines = f"{use['lines']:,} lines of 128 bytes"
    yield _figure("touched at all", in_bytes(use["sectors"] * SECTOR), lines)
    touches = use["first"] + sum(use["reuse"])
    if use["first"]:
        about = "programs and executions that touch a line, for each line"
        yield _figure("touches of a line", f"{touches / use['first']:.1f}", about)


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


def _reuse(use: Json) -> Iterator[Json]:
    """Yield touches of lines by the distance to the program that touched the line before."""
    total = use["first"] + sum(use["reuse"])
    counts = [("for the first time", use["first"])]
    counts += [(_distance(bits), count) for bits, count in enumerate(use["reuse"])]
    for name, count in counts:
        if count:
            yield {"name": name, "count": count, "share": count / total}


def _distance(bits: int) -> str:
    if bits == 0:
        return "after the program itself"
    if bits == 1:
        return "after an adjacent program"
    return f"after one {1 << (bits - 1):,} to {(1 << bits) - 1:,} programs away"
