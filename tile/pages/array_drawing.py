"""Names and numbers of array elements in pictures, which show arrays in memory order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile.pages.drawing import Subject
from tile.raster import Raster
from tile.spread import View

Json = Mapping[str, Any]


def array_subject(view: Json, raster: Raster) -> Subject:
    """Return the subject of a picture of an array's memory; point 0 is its lowest element."""
    low = int(view["low"])
    return Subject(
        "array",
        lambda point: element_name(view, point + low),
        lambda row: row * raster.columns + low,
    )


def element_name(view: Json, number: int) -> str:
    """Return the name of an element of an array's memory, with its row and column if any."""
    pitch = pitch_of(view)
    if pitch is None:
        return f"element {number:,}"
    row, column = divmod(number - view["low"], pitch)
    return f"element {number:,} (row {row}, column {column})"


def pitch_of(view: Json) -> int | None:
    """Return the elements of memory from one row to the next; None if there are no rows."""
    return View(**{**view, "shape": tuple(view["shape"]), "strides": tuple(view["strides"])}).pitch
