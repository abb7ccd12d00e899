"""How far a fault goes: all wrong elements of a tile, their programs, and where they pointed.

What a check found is counted into cells at once (`raster.py`), so that a fault of a million
elements is no larger than that of one; faults of one line add up.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tile.raster import Array, Heat, Raster, of_grid, of_line, of_shape

# Rows of cells in front of an array and behind it, in which near addresses are drawn.
MARGIN = 3
# How many tiles, grids and arrays of different shapes one line's faults are drawn over.
SHAPES = 4


@dataclass(frozen=True)
class View:
    """An array as programs see it.

    `strides`, and the range from `low` to before `high` in which its elements lie, count elements
    of memory from the one at index 0.
    """

    argument: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    low: int
    high: int

    @property
    def pitch(self) -> int | None:
        """The elements of memory from a row to the next, if it has rows."""
        pairs = zip(self.shape, self.strides, strict=True)
        steps = sorted({abs(step) for n, step in pairs if n > 1 and step})
        return steps[1] if len(steps) > 1 else None

    def raster(self, margin: int = 0) -> Raster:
        """Cells over the memory from the view's lowest element to its highest."""
        if self.pitch is None:
            return of_line(max(1, self.high - self.low), margin)
        return Raster(self.high - self.low, self.pitch, margin)


@dataclass
class Beyond:
    """Addresses farther from an array than is drawn: how many, and the farthest."""

    count: int = 0
    farthest: int = 0

    def add(self, elements: Array) -> None:
        """Take elements that lie on one side."""
        if elements.size:
            self.count += elements.size
            extremes = (self.farthest, int(elements.min()), int(elements.max()))
            self.farthest = max(extremes, key=abs)

    def merge(self, other: Beyond) -> None:
        """Take what another counted on the same side."""
        self.count += other.count
        self.farthest = max(self.farthest, other.farthest, key=abs)


@dataclass(eq=False)
class Landing:
    """Where addresses fell in an array and around it, and which cells are of the array.

    `inside` has as many rows and columns as the heat has cells: the share of the view among the
    elements of the cell, from 0 to 1.
    """

    view: View
    inside: Array
    heat: Heat = field(init=False)
    before: Beyond = field(default_factory=Beyond)
    after: Beyond = field(default_factory=Beyond)

    def __post_init__(self) -> None:
        self.heat = Heat(self.view.raster(MARGIN))

    def add(self, elements: Array) -> None:
        """Count elements, by their distance from the one at index 0."""
        points = elements - self.view.low
        self.heat.add(points)
        outside = self.heat.raster.cell(points) < 0
        if outside.any():
            far = elements[outside]
            self.before.add(far[far < self.view.low])
            self.after.add(far[far >= self.view.low])

    def merge(self, other: Landing) -> None:
        """Take what another of the same view counted."""
        self.heat.merge(other.heat)
        self.before.merge(other.before)
        self.after.merge(other.after)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the view, the heat, cells that are of the view wholly or in part, far ones."""
        rows = [
            "".join(".+#"[int(share > 0) + int(share >= 1)] for share in row) for row in self.inside
        ]
        return {
            "view": asdict(self.view),
            **self.heat.as_dict(),
            "inside": rows,
            "before": asdict(self.before),
            "after": asdict(self.after),
        }


@dataclass(eq=False)
class Spread:
    """All wrong elements of one execution: in the tile (None of a scalar), the grid, and arrays."""

    shape: tuple[int, ...]
    grid: tuple[int, int, int]
    tile: Heat | None
    programs: Heat
    landings: tuple[Landing, ...] = ()

    @property
    def count(self) -> int:
        """How many elements are wrong, in all programs."""
        return int(self.programs.counts.sum())


def spread_of(
    wrong: Array,
    rows: Array,
    grid: tuple[int, int, int],
    landings: tuple[Landing, ...] = (),
) -> Spread:
    """Count the wrong elements: truths of shape (programs or 1, *tile); `rows` are the programs."""
    shape = wrong.shape[1:]
    places = np.flatnonzero(wrong)
    size = max(1, wrong[:1].size)
    alike = len(wrong) == 1
    tile = None
    if shape:
        tile = Heat(of_shape(shape))
        tile.add(places % size, len(rows) if alike else 1)
    programs = Heat(of_grid(grid))
    if alike:
        programs.add(rows, len(places))
    else:
        programs.add(rows[places // size])
    return Spread(shape, grid, tile, programs, landings)


def of_programs(programs: Array, grid: tuple[int, int, int]) -> Spread:
    """What is wrong with whole programs, by their numbers."""
    heat = Heat(of_grid(grid))
    heat.add(programs)
    return Spread((), grid, None, heat)


@dataclass
class Spreads:
    """The spreads of many faults, by what they can be drawn over."""

    tiles: dict[tuple[int, ...], Heat] = field(default_factory=dict)
    grids: dict[tuple[int, int, int], Heat] = field(default_factory=dict)
    landings: dict[View, Landing] = field(default_factory=dict)

    def add(self, spread: Spread) -> None:
        """Take a spread; of very many shapes the first ones are kept."""
        if spread.tile is not None:
            _take(self.tiles, spread.shape, spread.tile)
        _take(self.grids, spread.grid, spread.programs)
        for landing in spread.landings:
            _take(self.landings, landing.view, landing)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "tiles": [{"shape": shape, **heat.as_dict()} for shape, heat in self.tiles.items()],
            "grids": [{"grid": grid, **heat.as_dict()} for grid, heat in self.grids.items()],
            "arrays": [landing.as_dict() for landing in self.landings.values()],
        }


def _take(known: dict[Any, Any], key: Any, found: Heat | Landing) -> None:
    if key in known:
        known[key].merge(found)
    elif len(known) < SHAPES:
        known[key] = found
