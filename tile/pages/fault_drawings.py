"""What is drawn of the faults of one line: tiles, grids and arrays, with what is wrong in each."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tile.pages.array_drawing import of_array
from tile.pages.drawing import (
    Box,
    Drawing,
    Ink,
    What,
    covered,
    heat,
    outline,
    raster_of,
    scale,
    shown,
    times,
)
from tile.raster import Raster

Json = Mapping[str, Any]
Keys = Container[str]


WRONG = Ink("hot", "wrong")


def _what(kind: str, raster: Raster, shape: Sequence[int], spell: Callable[[Any], str]) -> What:
    """Of points in the order of a shape: rows that are folded lines are called by their first."""
    folded = raster.columns if sum(extent > 1 for extent in shape) < 2 else 1

    def named(point: int) -> str:
        return spell(np.unravel_index(min(point, raster.points - 1), shape))

    return What(kind, named, lambda row: row * folded)


def drawings(key: str, group: Json, keys: Keys) -> list[Drawing]:
    """The pictures of a group of faults; `key` names the group on its page, `keys` some cells."""
    tiles = [_tile(f"{key}-tile-{n}", found, keys) for n, found in enumerate(group["tiles"])]
    grids = [_grid(f"{key}-grid-{n}", found, group, keys) for n, found in enumerate(group["grids"])]
    arrays = [_array(f"{key}-array-{n}", found, keys) for n, found in enumerate(group["arrays"])]
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


def _tile(key: str, found: Json, keys: Keys) -> Drawing:
    shape = found["shape"]
    raster = raster_of(found)
    area = shown(raster, found["counts"])
    extents = times(shape)
    caption = [f"{extents} elements.", *_rows(raster, shape, "elements")]
    what = _what("tile", raster, shape, lambda index: f"[{', '.join(map(str, index))}]")
    return heat(key, what, f"Tile, {extents}", caption, area, found, covered(raster), WRONG, keys)


def _grid(key: str, found: Json, group: Json, keys: Keys) -> Drawing:
    grid = found["grid"]
    raster = raster_of(found)
    area = shown(raster, found["counts"])
    caption = [f"{math.prod(grid):,} programs.", *_rows(raster, grid[::-1], "programs")]
    what = _what("grid", raster, grid[::-1], lambda i: f"program ({i[2]}, {i[1]}, {i[0]})")
    title = f"Grid, {times(grid)}"
    drawing = heat(key, what, title, caption, area, found, covered(raster), WRONG, keys)
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


def _array(key: str, found: Json, keys: Keys) -> Drawing:
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
    what = of_array(view, raster)
    drawing = heat(key, what, title, caption, area, found, rows, WRONG, keys)
    drawing.outline = outline(area, rows)
    styles = {box.style for box in drawing.boxes}
    words = (("gap", "not of the view"), ("part", "partly"), ("beyond", "outside"))
    drawing.legend += [(style, word) for style, word in words if style in styles]
    return drawing


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
