"""Heatmaps as pictures: counts of cells as rectangles for SVG, and as a table.

Pictures show arrays in memory order; elements are named by index and number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tile.heatmap import ArrayView, CellGrid

TIMES = "\N{MULTIPLICATION SIGN}"

# In SVG user units: the approximate width of a picture, and bounds for the edge of a cell.
WIDTH = 320
EDGES = (5, 20)
LEFT, TOP = 44, 18  # margins for labels
SPACING = 14  # between labels, at least
# The number of rows that a table lists; further ones are counted.
MAX_TABLE_ROWS = 24


@dataclass(frozen=True)
class Rect:
    """A row of adjacent cells of one class.

    key: its element id on the page, or "".
    title: the name of its cells.
    """

    row: int
    column: int
    width: int
    style: str
    strength: float = 1.0
    key: str = ""
    title: str = ""
    count: int = 0


@dataclass(frozen=True)
class Label:
    """Text at the edge of the cells."""

    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass
class Drawing:
    """A picture.

    key: its element id on the page.
    kind: the class of its subject: tile, grid or array.
    alt: its text alternative.
    """

    key: str
    kind: str
    title: str
    caption: list[str]
    alt: str
    cells: tuple[int, int]
    rects: list[Rect]
    labels: list[Label]
    table: list[tuple[str, int]] = field(default_factory=list)
    unlisted: int = 0
    legend: list[tuple[str, str]] = field(default_factory=list)
    outline: str = ""  # an SVG path

    @property
    def edge(self) -> int:
        """The edge of a cell, in units."""
        return edge_of(self.cells)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        rows, columns = self.cells
        return LEFT + columns * self.edge + 8, TOP + rows * self.edge + 4


def edge_of(cells: tuple[int, int]) -> int:
    """Return the edge of a cell, in units, for a picture of `cells` rows and columns."""
    smallest, largest = EDGES
    return max(smallest, min(largest, WIDTH // cells[1]))


@dataclass(frozen=True)
class Subject:
    """The subject of a picture.

    kind: its class: tile, grid or array.
    spell: returns the name of a point.
    number: returns the label of a row of points.
    """

    kind: str
    spell: Callable[[int], str]
    number: Callable[[int], int]


@dataclass(frozen=True)
class Ink:
    """The events that are counted: the class of their cells, and the word for them."""

    style: str
    word: str


@dataclass(frozen=True)
class VisibleRows:
    """The rows of a raster's cells that are drawn, from `first` on."""

    raster: CellGrid
    first: int
    rows: int

    @property
    def cells(self) -> tuple[int, int]:
        return self.rows, self.raster.cells[1]

    def points(self, row: int, column: int) -> tuple[int, int, int, int]:
        """Return the first and last row, and the first and last column, of a cell's points."""
        raster = self.raster
        high = (row + self.first - raster.margin) * raster.high
        wide = column * raster.wide
        return high, high + raster.high - 1, wide, min(wide + raster.wide, raster.columns) - 1


def raster_of(heatmap: Mapping[str, Any]) -> CellGrid:
    """Return the raster of a heatmap's JSON."""
    return CellGrid(**heatmap["raster"])


def visible_rows(raster: CellGrid, counts: Sequence[Sequence[int]]) -> VisibleRows:
    """Return the rows to draw: those of the raster, and of its margins those up to a count."""
    rows, _ = raster.cells
    hot = [row for row, _, _ in counts]
    first = min([raster.margin, *hot])
    last = max([rows - raster.margin - 1, *hot])
    return VisibleRows(raster, first, last - first + 1)


def background(area: VisibleRows, inside: Sequence[str]) -> list[Rect]:
    """Return the cells themselves, in runs; `inside` has a character of `STYLES` for each cell."""
    rects = []
    for row in range(area.rows):
        column = 0
        for style, run in groupby(inside[row + area.first]):
            width = len(list(run))
            if style in STYLES:
                rects.append(Rect(row, column, width, STYLES[style]))
            column += width
    return rects


STYLES = {"#": "cell", "+": "part", "-": "gap", ".": "beyond"}


def outline(area: VisibleRows, words: Sequence[str]) -> str:
    """Return the outline of the cells that are not outside, as an SVG path.

    words: the cells, as `background` takes them.
    """
    rows, columns = area.cells
    edge = edge_of(area.cells)

    def inside(row: int, column: int) -> bool:
        within = 0 <= row < rows and 0 <= column < columns
        return within and words[row + area.first][column] not in ". "

    lines = []
    for row in range(rows + 1):
        for column in range(columns + 1):
            x, y = LEFT + column * edge, TOP + row * edge
            is_inside = inside(row, column)
            if is_inside != inside(row - 1, column):
                lines.append(f"M{x} {y}h{edge}")
            if is_inside != inside(row, column - 1):
                lines.append(f"M{x} {y}v{edge}")
    return "".join(lines)


def covered(raster: CellGrid) -> list[str]:
    """Return the cells that have points, as `background` takes them."""
    truths = raster.covered(0, raster.points)
    return ["".join("#" if truth else " " for truth in row) for row in truths]


def strengths(counts: Sequence[Sequence[int]]) -> list[float]:
    """Return the opacity of each count: its logarithm over the greatest count's."""
    greatest = max((count for _, _, count in counts), default=1)
    scale = math.log2(greatest + 1)
    return [0.4 + 0.6 * math.log2(count + 1) / scale for _, _, count in counts]


def cell_name(
    area: VisibleRows, row: int, column: int, spell: Callable[[int], str], until: int
) -> str:
    """Return the name of the cells from one up to column `until`: their first and last point."""
    first_row, last_row, first, _ = area.points(row, column)
    last = area.points(row, until)[3]
    columns = area.raster.columns
    low, high = first_row * columns + first, last_row * columns + last
    if low < area.raster.points:
        high = min(high, area.raster.points - 1) if low >= 0 else high
    return spell(low) if low == high else f"{spell(low)} to {spell(high)}"


def labels(area: VisibleRows, edge: int, number: Callable[[int], int]) -> list[Label]:
    """Return the labels of rows and columns; `number` returns that of a row of points."""
    rows, columns = area.cells
    step = -(-SPACING // edge)
    texts = [
        Label(LEFT - 6, TOP + (row + 0.5) * edge + 4, _short(number(area.points(row, 0)[0])), "end")
        for row in range(0, rows, step)
    ]
    last = area.raster.columns - 1
    texts.append(Label(LEFT + edge / 2, TOP - 6, "0", "middle"))
    if last:
        texts.append(Label(LEFT + (columns - 0.5) * edge, TOP - 6, _short(last), "middle"))
    return texts


def _short(number: int) -> str:
    """Return a number in about six characters at most."""
    for unit, power in (("G", 9), ("M", 6), ("k", 3)):
        if abs(number) >= 10 ** (power + 2):
            return f"{number / 10**power:.1f}{unit}"
    return str(number)


def times(extents: Sequence[int]) -> str:
    """Return the text of extents, as in 8 x 32."""
    return f" {TIMES} ".join(f"{extent:,}" for extent in extents)


def scale(raster: CellGrid, unit: str) -> list[str]:
    """Return a sentence on the points of a cell, if it has more than one; `unit` names them."""
    if raster.high == raster.wide == 1:
        return []
    return [f"A cell is {times([raster.high, raster.wide])} {unit}."]


def heatmap_drawing(
    key: str,
    subject: Subject,
    title: str,
    caption: list[str],
    area: VisibleRows,
    heatmap: Mapping[str, Any],
    cells: Sequence[str],
    ink: Ink,
    keys: Container[str] = (),
) -> Drawing:
    """Return the picture of a heatmap's JSON.

    cells: the cells under the counts, as `background` takes them.
    keys: element ids of cells that are drawn alone; other adjacent cells of one count are merged.
    """
    hot = list(_hot(key, subject, area, heatmap["counts"], ink, keys))
    table = [(rect.title, rect.count) for rect in hot]
    where = ", ".join(name for name, _ in table[:3])
    rest = f" and {len(table) - 3} more" if len(table) > 3 else ""
    return Drawing(
        key,
        subject.kind,
        title,
        caption,
        f"{title}. {ink.word.capitalize()}: {where}{rest}.",
        area.cells,
        [*background(area, cells), *hot],
        labels(area, edge_of(area.cells), subject.number),
        table[:MAX_TABLE_ROWS],
        max(0, len(table) - MAX_TABLE_ROWS),
        [(ink.style, ink.word)],
    )


def _hot(
    key: str,
    subject: Subject,
    area: VisibleRows,
    counts: Sequence[Sequence[int]],
    ink: Ink,
    keys: Container[str],
) -> Iterator[Rect]:
    shades = strengths(counts)
    names = [f"{key}-{row * area.cells[1] + column}" for row, column, _ in counts]
    for run in _runs(counts, [name in keys for name in names]):
        first = run[0]
        row, column, count = counts[first]
        name = cell_name(area, row - area.first, column, subject.spell, counts[run[-1]][1])
        cell = names[first] if names[first] in keys else ""
        position = row - area.first, column, len(run)
        yield Rect(*position, ink.style, shades[first], cell, name, count)


def _runs(counts: Sequence[Sequence[int]], alone: Sequence[bool]) -> Iterator[list[int]]:
    """Yield runs of adjacent cells of one count, by their indices; cells of `alone` stay alone."""
    run: list[int] = []
    for index, (row, column, count) in enumerate(counts):
        if run and (
            alone[index] or alone[run[-1]] or [row, column - 1, count] != list(counts[run[-1]])
        ):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


Json = Mapping[str, Any]


def array_subject(view: Json, raster: CellGrid) -> Subject:
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
    return ArrayView(
        **{**view, "shape": tuple(view["shape"]), "strides": tuple(view["strides"])}
    ).pitch
