"""The pictures of the faults of one line: tiles, grids and arrays with their wrong points."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tile.pages.array_drawing import array_subject
from tile.pages.drawing import (
    Drawing,
    Ink,
    Rect,
    Subject,
    covered,
    heatmap_drawing,
    outline,
    raster_of,
    scale,
    times,
    visible_rows,
)
from tile.raster import Raster

Json = Mapping[str, Any]
Keys = Container[str]


WRONG = Ink("hot", "wrong")


def _subject(
    kind: str, raster: Raster, shape: Sequence[int], spell: Callable[[Any], str]
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


def _inside(heatmap: Json, raster: Raster) -> list[str]:
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


def _rows(raster: Raster, shape: Sequence[int], unit: str) -> list[str]:
    """Return sentences on the rows and cells of a picture, unless they are single points."""
    lines = scale(raster, unit)
    if sum(extent > 1 for extent in shape) < 2 and raster.rows > 1:
        return [f"A row is {raster.columns} {unit}.", *lines]
    return lines
