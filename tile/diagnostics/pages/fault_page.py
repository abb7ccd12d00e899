"""The page of a report of faults, made from its JSON.

Each line with faults has pictures of tiles, grids and arrays with their wrong points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tile.diagnostics.pages import render
from tile.diagnostics.pages.source_listing import Annotation, Listing, listings
from tile.diagnostics.pages.svg import (
    TIMES,
    Drawing,
    Ink,
    Rect,
    Subject,
    array_subject,
    covered,
    element_name,
    heatmap_drawing,
    outline,
    raster_of,
    scale,
    times,
    visible_rows,
)
from tile.faults import Coverage
from tile.heatmap import CellGrid
from tile.location import line_of

Json = Mapping[str, Any]
Keys = Container[str]


WRONG = Ink("hot", "wrong")


def _subject(
    kind: str, raster: CellGrid, shape: Sequence[int], spell: Callable[[Any], str]
) -> Subject:
    """Return the subject of a picture whose points are in the order of a shape.

    A one-dimensional shape is folded into rows, which are labeled by their first point.
    """
    folded = raster.columns if sum(extent > 1 for extent in shape) < 2 else 1

    def named(point: int) -> str:
        return spell(np.unravel_index(min(point, raster.points - 1), shape))

    return Subject(kind, named, lambda row: row * folded)


def group_drawings(key: str, group: Json, keys: Keys) -> list[Drawing]:
    """Return the pictures of a group of faults.

    key: the group's element id on the page. keys: element ids of cells that are drawn alone.
    """
    tiles = [_tile(f"{key}-tile-{n}", heatmap, keys) for n, heatmap in enumerate(group["tiles"])]
    grids = [
        _grid(f"{key}-grid-{n}", heatmap, group, keys) for n, heatmap in enumerate(group["grids"])
    ]
    arrays = [
        _array(f"{key}-array-{n}", heatmap, keys) for n, heatmap in enumerate(group["arrays"])
    ]
    return [*tiles, *grids, *arrays]


def fault_cells(key: str, group: Json, fault: Json) -> Iterator[str]:
    """Yield the element ids of the cells in which one fault is drawn."""
    for number, heatmap in enumerate(group["tiles"]):
        if len(heatmap["shape"]) == len(fault["element"]) > 0:
            point = _flat(fault["element"], heatmap["shape"])
            yield f"{key}-tile-{number}-{_cell(heatmap, point)}"
    for number, heatmap in enumerate(group["grids"]):
        if heatmap["grid"] == fault["grid"]:
            point = _flat(fault["program"][::-1], heatmap["grid"][::-1])
            yield f"{key}-grid-{number}-{_cell(heatmap, point)}"
    address = fault["place"]
    for number, heatmap in enumerate(group["arrays"]):
        view = heatmap["view"]
        if address is not None and (view["argument"], view["shape"]) == (
            address["argument"],
            address["shape"],
        ):
            yield f"{key}-array-{number}-{_cell(heatmap, address['element'] - view['low'])}"


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    point = 0
    for i, extent in zip(index, shape, strict=True):
        point = point * extent + i
    return point


def _cell(heatmap: Json, point: int) -> int:
    return int(raster_of(heatmap).cell(np.array([point]))[0])


# -- the three kinds


def _tile(key: str, heatmap: Json, keys: Keys) -> Drawing:
    shape = heatmap["shape"]
    raster = raster_of(heatmap)
    area = visible_rows(raster, heatmap["counts"])
    extents = times(shape)
    caption = [f"{extents} elements.", *_rows(raster, shape, "elements")]
    subject = _subject("tile", raster, shape, lambda index: f"[{', '.join(map(str, index))}]")
    return heatmap_drawing(
        key, subject, f"Tile, {extents}", caption, area, heatmap, covered(raster), WRONG, keys
    )


def _grid(key: str, heatmap: Json, group: Json, keys: Keys) -> Drawing:
    grid = heatmap["grid"]
    raster = raster_of(heatmap)
    area = visible_rows(raster, heatmap["counts"])
    caption = [f"{math.prod(grid):,} programs.", *_rows(raster, grid[::-1], "programs")]
    subject = _subject("grid", raster, grid[::-1], lambda i: f"program ({i[2]}, {i[1]}, {i[0]})")
    title = f"Grid, {times(grid)}"
    drawing = heatmap_drawing(
        key, subject, title, caption, area, heatmap, covered(raster), WRONG, keys
    )
    others = {
        _cell(heatmap, _flat(fault["other"]["program"][::-1], grid[::-1]))
        for fault in group["faults"]
        if fault["other"] is not None and fault["grid"] == grid
    }
    columns = raster.cells[1]
    for cell in sorted(others):
        row, column = cell // columns - area.first, cell % columns
        drawing.rects.append(Rect(row, column, 1, "other", title="the other side of a race"))
    if others:
        drawing.legend.append(("other", "other side"))
    return drawing


def _array(key: str, heatmap: Json, keys: Keys) -> Drawing:
    view = heatmap["view"]
    raster = raster_of(heatmap)
    area = visible_rows(raster, heatmap["counts"])
    rows = _inside(heatmap, raster)
    extents = times(view["shape"]) or "1"
    strides = f", strides {tuple(view['strides'])}" if view["strides"] not in ([], [1]) else ""
    caption = [
        f"{view['dtype']}{strides}: elements {view['low']} to {view['high'] - 1}.",
        f"A row is {raster.columns} elements of memory.",
        *scale(raster, "elements"),
        *_far(heatmap),
    ]
    title = f"Array {view['argument']}, {extents}"
    subject = array_subject(view, raster)
    drawing = heatmap_drawing(key, subject, title, caption, area, heatmap, rows, WRONG, keys)
    drawing.outline = outline(area, rows)
    styles = {rect.style for rect in drawing.rects}
    words = (("gap", "not of the view"), ("part", "partly"), ("beyond", "outside"))
    drawing.legend += [(style, word) for style, word in words if style in styles]
    return drawing


def _inside(heatmap: Json, raster: CellGrid) -> list[str]:
    """Return the array's cells, as `background` takes them, with gaps between a view's elements."""
    view = heatmap["view"]
    near = raster.covered(0, view["high"] - view["low"])
    return [
        "".join("-" if a == "." and b else a for a, b in zip(*pair, strict=True))
        for pair in zip(heatmap["inside"], near, strict=True)
    ]


def _far(heatmap: Json) -> Iterator[str]:
    for side, word in (("before", "in front of it"), ("after", "behind it")):
        far = heatmap[side]
        if far["count"]:
            yield (
                f"{far['count']:,} more lie farther {word} than is drawn, up to element "
                f"{far['farthest']:,}."
            )


def _rows(raster: CellGrid, shape: Sequence[int], unit: str) -> list[str]:
    """Return sentences on the rows and cells of a picture, unless they are single points."""
    lines = scale(raster, unit)
    if sum(extent > 1 for extent in shape) < 2 and raster.rows > 1:
        return [f"A row is {raster.columns} {unit}.", *lines]
    return lines


# The number of faults of one line that are listed; all are counted and drawn.
MAX_ROWS = 40
# The number of source lines that have a section; further ones are counted.
MAX_SECTIONS = 60

ABOUT = {
    "bounds": "accesses outside the array or view that was passed",
    "race": "unordered accesses of two programs, at least one of them a write",
    "undef": "undefined values that reach memory, a branch, an address or an atomic operation",
    "overflow": "signed arithmetic that wrapped in computing an address, mask or loop bound",
    "assume": "assumptions stated to the compiler that are false",
    "deadlock": "programs that wait for an event that cannot happen",
}


def check_page(findings: Json) -> str:
    """Return the page of the findings of `tile check`, with all that the terminal shows."""
    report = findings["report"]
    groups = [*report["groups"], *findings["elsewhere"]]
    combined = {**report, "groups": groups, "faults": sum(group["executions"] for group in groups)}
    return faults_page(combined, findings)


def faults_page(report: Json, summary: Json | None = None) -> str:
    """Return the page of a report; sources are read from the files that locations name.

    summary: the findings of `tile check`, of which the page shows launches, results and verdict.
    """
    coverage = Coverage.of(report.get("coverage", ()))
    groups = report["groups"][:MAX_SECTIONS]
    sections = [_section(f"fault-{number}", group) for number, group in enumerate(groups, 1)]
    totals = Counter[str]()
    for group in report["groups"]:
        totals[group["check"]] += group["executions"]
    return render(
        "faults.html",
        title=_title(report, coverage),
        coverage=[*coverage.lines()],
        summary=summary,
        kernels=sorted({section["kernel"] for section in sections}),
        totals=[(check, ABOUT[check], count) for check, count in totals.most_common()],
        listings=listings(_annotations(groups, sections)),
        sections=sections,
        left_out=len(report["groups"]) - len(groups),
    )


def _title(report: Json, coverage: Coverage) -> str:
    faults, lines = report["faults"], len(report["groups"])
    if not faults:
        return coverage.verdict().capitalize()
    return f"{_count(faults, 'fault')} at {_count(lines, 'place')}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _annotations(groups: Sequence[Json], sections: Sequence[Json]) -> Iterator[Annotation]:
    for group, section in zip(groups, sections, strict=True):
        if group["loc"] is not None:
            text = f"{group['check']} {TIMES}{group['executions']:,}"
            yield _annotation(group["loc"], group["check"], text, section["key"])
        first = group["faults"][0]
        if first["cause"] not in (None, group["loc"]):
            text = f"cause of {group['check']}"
            yield _annotation(first["cause"], "cause", text, section["key"])
        if first["other"] is not None and first["other"]["loc"] not in (None, group["loc"]):
            text = f"other side of {group['check']}"
            yield _annotation(first["other"]["loc"], "other", text, section["key"])


def _annotation(loc: Json, kind: str, text: str, target: str) -> Annotation:
    columns = loc["column"], max(loc["end_column"], loc["column"] + 1)
    return Annotation(loc["file"], loc["line"], columns, kind, text, target)


def _section(key: str, group: Json) -> Json:
    """Return the template's variables of the faults of one line and check."""
    first = group["faults"][0]
    loc = group["loc"]
    faults = group["faults"][:MAX_ROWS]
    entries = [_entry(key, number, group, fault) for number, fault in enumerate(faults, 1)]
    keys = {name for entry in entries for name in entry["cells"].split()}
    return {
        "way": "",  # the only way of launching in which `tile check` found it
        **group,
        "key": key,
        "kernel": first["kernel"],
        "title": first["message"],
        "where": _location(loc),
        "calls": [] if loc is None else [_location(call) for call in _callers(loc)],
        "elements": group["elements"] if first["place"] or first["element"] else 0,
        "notes": first["notes"],
        "drawings": group_drawings(key, group, keys),
        "sides": list(_sides(first)),
        "entries": entries,
        "unlisted": group["executions"] - len(faults),
    }


def _location(loc: Json | None) -> str:
    if loc is None:
        return "an unknown location"
    inside = f", in {loc['function']}" if loc["function"] else ""
    return line_of(loc["file"], loc["line"]) + inside


def _callers(loc: Json) -> Iterator[Json]:
    while loc["caller"] is not None:
        loc = loc["caller"]
        yield loc


def _entry(key: str, number: int, group: Json, fault: Json) -> Json:
    """Return a fault's row in the table of its line; `cells` are the ids of those that show it."""
    address = fault["place"]
    return {
        "number": number,
        "program": _programs(fault),
        "element": f"[{', '.join(map(str, fault['element']))}]" if fault["element"] else "",
        "address": "" if address is None else _address(address, group["arrays"]),
        "count": fault["count"],
        "cells": " ".join(fault_cells(key, group, fault)),
    }


def _address(address: Json, arrays: Sequence[Json] = ()) -> str:
    """Return the element of an address; with row and column if outside of an array with rows."""
    if address["index"] is None:
        views = (heatmap["view"] for heatmap in arrays)
        own = [view for view in views if view["argument"] == address["argument"]]
        number = address["element"]
        where = element_name(own[0], number) if own else f"element {number:,}"
        return f"{address['argument']} at {where}"
    return f"{address['argument']}[{', '.join(map(str, address['index']))}]"


def _indices(program: Sequence[int]) -> str:
    return f"({', '.join(map(str, program))})"


def _programs(fault: Json) -> str:
    """Return the program of a fault, or both programs of a race."""
    own, other = _indices(fault["program"]), fault["other"]
    return own if other is None else f"{own} and {_indices(other['program'])}"


def _sides(fault: Json) -> Iterator[Json]:
    """Yield both accesses of a race, the earlier one first."""
    other, address = fault["other"], fault["place"]
    if other is None:
        return
    text = "" if address is None else f"`{_address(address)}`"
    own = fault["message"].split("` ", 1)[-1].split(" ", 1)[0]
    for program, verb, loc in (
        (other["program"], other["verb"], other["loc"]),
        (fault["program"], own, fault["loc"]),
    ):
        yield {
            "program": f"program {_indices(program)}",
            "access": f"{verb} {text}",
            "where": _location(loc),
            "listing": _line(loc),
        }


def _line(loc: Json | None) -> Listing | None:
    """Return the listing of an access's line."""
    if loc is None:
        return None
    for listing in listings([_annotation(loc, "race", "", "")]):
        (line,) = (line for line in listing.lines if line.annotations)
        first, *rest = line.spans
        return Listing(listing.file, [replace(line, spans=[first.stripped(), *rest])])
    return None
