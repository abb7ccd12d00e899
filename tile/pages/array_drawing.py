"""How arrays are named and numbered in pictures: as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile.pages.drawing import What
from tile.raster import Raster
from tile.spread import View

Json = Mapping[str, Any]


def of_array(view: Json, raster: Raster) -> What:
    """A picture of an array's memory, whose points count from its lowest element."""
    low = int(view["low"])
    return What(
        "array",
        lambda point: element(view, point + low),
        lambda row: row * raster.columns + low,
    )


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
