"""What is drawn of the faults of one line: tiles, grids and arrays, with what is wrong in each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.pages.drawing import (
    LISTED,
    Box,
    Drawing,
    Shown,
    cell_name,
    covered,
    edge_of,
    ground,
    labels,
    raster_of,
    scale,
    shown,
    strengths,
    times,
)
from tile.raster import Raster
from tile.spread import View

Json = Mapping[str, Any]


@dataclass(frozen=True)
class What:
    """What a picture is of: how a point of it is called, and the number beside a row of points."""

    kind: str
    spell: Callable[[int], str]
    number: Callable[[int], int]


def _what(kind: str, raster: Raster, shape: Sequence[int], spell: Callable[[Any], str]) -> What:
    """Of points in the order of a shape: rows that are folded lines are called by their first."""
    folded = raster.columns if sum(extent > 1 for extent in shape) < 2 else 1

    def named(point: int) -> str:
        return spell(np.unravel_index(min(point, raster.points - 1), shape))

    return What(kind, named, lambda row: row * folded)


def drawings(key: str, group: Json) -> list[Drawing]:
    """The pictures of a group of faults; `key` names the group on its page."""
    tiles = [_tile(f"{key}-tile-{n}", found) for n, found in enumerate(group["tiles"])]
    grids = [_grid(f"{key}-grid-{n}", found, group) for n, found in enumerate(group["grids"])]
    arrays = [_array(f"{key}-array-{n}", found) for n, found in enumerate(group["arrays"])]
    return [*tiles, *grids, *arrays]


def keys_of(key: str, group: Json, fault: Json) -> Iterator[str]:
    """The names of the cells in which one fault is drawn."""
    for number, found in enumerate(group["tiles"]):
        if len(found["shape"]) == len(fault["element"]) > 0:
            point = _flat(fault["element"], found["shape"])
            yield f"{key}-tile-{number}-{_cell(found, point)}"
    for number, found in enumerate(group["grids"]):
        if found["grid"] == fault["grid"]:
            point = _flat(fault["program"][::-1], found["grid"][::-1])
            yield f"{key}-grid-{number}-{_cell(found, point)}"
    place = fault["place"]
    for number, found in enumerate(group["arrays"]):
        view = found["view"]
        if place is not None and (view["argument"], view["shape"]) == (
            place["argument"],
            place["shape"],
        ):
            yield f"{key}-array-{number}-{_cell(found, place['element'] - view['low'])}"


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    point = 0
    for i, extent in zip(index, shape, strict=True):
        point = point * extent + i
    return point


def _cell(found: Json, point: int) -> int:
    return int(raster_of(found).cell(np.array([point]))[0])


# -- the three kinds


def _tile(key: str, found: Json) -> Drawing:
    shape = found["shape"]
    raster = raster_of(found)
    area = shown(raster, found["counts"])
    extents = times(shape)
    caption = [f"{extents} elements.", *_rows(raster, shape, "elements")]
    what = _what("tile", raster, shape, lambda index: f"[{', '.join(map(str, index))}]")
    return _drawing(key, what, f"Tile, {extents}", caption, area, found, covered(raster))


def _grid(key: str, found: Json, group: Json) -> Drawing:
    grid = found["grid"]
    raster = raster_of(found)
    area = shown(raster, found["counts"])
    extents = times(grid)
    caption = [f"{math.prod(grid):,} programs.", *_rows(raster, grid[::-1], "programs")]
    what = _what("grid", raster, grid[::-1], lambda i: f"program ({i[2]}, {i[1]}, {i[0]})")
    drawing = _drawing(key, what, f"Grid, {extents}", caption, area, found, covered(raster))
    others = {
        _cell(found, _flat(fault["other"]["program"][::-1], grid[::-1]))
        for fault in group["faults"]
        if fault["other"] is not None and fault["grid"] == grid
    }
    columns = raster.cells[1]
    for cell in sorted(others):
        row, column = cell // columns - area.first, cell % columns
        drawing.boxes.append(Box(row, column, 1, "other", title="the other side of a race"))
    if others:
        drawing.legend.append(("other", "other side"))
    return drawing


def _array(key: str, found: Json) -> Drawing:
    view = found["view"]
    raster = raster_of(found)
    area = shown(raster, found["counts"])
    rows = _inside(found, raster)
    extents = times(view["shape"]) or "1"
    strides = f", strides {tuple(view['strides'])}" if view["strides"] not in ([], [1]) else ""
    caption = [
        f"{view['dtype']}{strides}: elements {view['low']} to {view['high'] - 1}.",
        f"A row is {raster.columns} elements of memory.",
        *scale(raster, "elements"),
        *_far(found),
    ]
    title = f"Array {view['argument']}, {extents}"
    what = What(
        "array",
        lambda point: element(view, point + view["low"]),
        lambda row: row * raster.columns + int(view["low"]),
    )
    drawing = _drawing(key, what, title, caption, area, found, rows)
    styles = {box.style for box in drawing.boxes}
    words = (("gap", "not of the view"), ("part", "partly"), ("beyond", "outside"))
    drawing.legend += [(style, word) for style, word in words if style in styles]
    return drawing


def element(view: Json, number: int) -> str:
    """An element of an array's memory in words, by the row that it lies in if there are rows."""
    pitch = pitch_of(view)
    if pitch is None:
        return f"element {number:,}"
    row, column = divmod(number - view["low"], pitch)
    return f"element {number:,} (row {row}, column {column})"


def pitch_of(view: Json) -> int | None:
    """The elements of memory from one row of an array to the next."""
    return View(**{**view, "shape": tuple(view["shape"]), "strides": tuple(view["strides"])}).pitch


def _inside(found: Json, raster: Raster) -> list[str]:
    """The words of the array's cells: where memory is between the view's elements, a gap."""
    view = found["view"]
    near = raster.covered(0, view["high"] - view["low"])
    return [
        "".join("-" if a == "." and b else a for a, b in zip(*pair, strict=True))
        for pair in zip(found["inside"], near, strict=True)
    ]


def _far(found: Json) -> Iterator[str]:
    for side, word in (("before", "in front of it"), ("after", "behind it")):
        far = found[side]
        if far["count"]:
            yield (
                f"{far['count']:,} more lie farther {word} than is drawn, up to element "
                f"{far['farthest']:,}."
            )


def _rows(raster: Raster, shape: Sequence[int], what: str) -> list[str]:
    """How the rows of a picture are to be read, where it is not plain."""
    said = scale(raster, what)
    if sum(extent > 1 for extent in shape) < 2 and raster.rows > 1:
        return [f"A row is {raster.columns} {what}.", *said]
    return said


# -- what they share


def _drawing(
    key: str, what: What, title: str, caption: list[str], area: Shown, found: Json, cells: list[str]
) -> Drawing:
    boxes = ground(area, cells)
    table = []
    for (row, column, count), strength in zip(
        found["counts"], strengths(found["counts"]), strict=True
    ):
        name = cell_name(area, row - area.first, column, what.spell)
        table.append((name, count))
        cell = f"{key}-{row * area.cells[1] + column}"
        title_ = f"{name}: {count:,} wrong"
        boxes.append(Box(row - area.first, column, 1, "hot", strength, cell, title_))
    where = ", ".join(name for name, _ in table[:3])
    rest = f" and {len(table) - 3} more cells" if len(table) > 3 else ""
    return Drawing(
        key,
        what.kind,
        title,
        caption,
        f"{title}. Wrong: {where}{rest}.",
        area.cells,
        boxes,
        labels(area, edge_of(area.cells), what.number),
        table[:LISTED],
        max(0, len(table) - LISTED),
        [("hot", "wrong")],
    )
