"""Counts in cells as pictures: rectangles for SVG, and the same as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tile.raster import Raster

TIMES = "\N{MULTIPLICATION SIGN}"

# Units of a picture that it is about as wide as, and bounds for the edge of a cell.
WIDTH = 320
EDGES = (5, 20)
LEFT, TOP = 44, 18  # room for labels
SPACING = 14  # between labels, at least
# Rows of a table, after which the rest is counted.
LISTED = 24


@dataclass(frozen=True)
class Box:
    """A rectangle of cells of one class; `key` names it on its page, `title` says what it is."""

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
    """Text beside the cells."""

    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass
class Drawing:
    """A picture: `key` is its name on the page, `kind` what it is of, `alt` what it shows."""

    key: str
    kind: str
    title: str
    caption: list[str]
    alt: str
    cells: tuple[int, int]
    boxes: list[Box]
    labels: list[Label]
    table: list[tuple[str, int]] = field(default_factory=list)
    unlisted: int = 0
    legend: list[tuple[str, str]] = field(default_factory=list)
    outline: str = ""  # an SVG path

    @property
    def edge(self) -> int:
        """Units of the edge of a cell."""
        return edge_of(self.cells)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        rows, columns = self.cells
        return LEFT + columns * self.edge + 8, TOP + rows * self.edge + 4


def edge_of(cells: tuple[int, int]) -> int:
    """Units of the edge of a cell, of a picture of so many rows and columns."""
    least, most = EDGES
    return max(least, min(most, WIDTH // cells[1]))


@dataclass(frozen=True)
class What:
    """What a picture is of: how a point of it is called, and the number beside a row of points."""

    kind: str
    spell: Callable[[int], str]
    number: Callable[[int], int]


@dataclass(frozen=True)
class Ink:
    """What is counted: the class of its cells, and the word for it."""

    style: str
    word: str


@dataclass(frozen=True)
class Shown:
    """The rows of cells that are drawn, from `first` on, of a raster."""

    raster: Raster
    first: int
    rows: int

    @property
    def cells(self) -> tuple[int, int]:
        return self.rows, self.raster.cells[1]

    def points(self, row: int, column: int) -> tuple[int, int, int, int]:
        """First and last row, and first and last column, of the points of a cell."""
        raster = self.raster
        high = (row + self.first - raster.margin) * raster.high
        wide = column * raster.wide
        return high, high + raster.high - 1, wide, min(wide + raster.wide, raster.columns) - 1


def raster_of(found: Mapping[str, Any]) -> Raster:
    """The raster of a heat's JSON."""
    return Raster(**found["raster"])


def shown(raster: Raster, counts: Sequence[Sequence[int]]) -> Shown:
    """What is drawn: the raster, and of its margins the rows up to those that have something."""
    rows, _ = raster.cells
    hot = [row for row, _, _ in counts]
    first = min([raster.margin, *hot])
    last = max([rows - raster.margin - 1, *hot])
    return Shown(raster, first, last - first + 1)


def ground(area: Shown, inside: Sequence[str]) -> list[Box]:
    """The cells themselves, in runs; `inside` has a character for each cell: the word of STYLES."""
    boxes = []
    for row in range(area.rows):
        column = 0
        for style, run in groupby(inside[row + area.first]):
            width = len(list(run))
            if style in STYLES:
                boxes.append(Box(row, column, width, STYLES[style]))
            column += width
    return boxes


STYLES = {"#": "cell", "+": "part", "-": "gap", ".": "beyond"}


def outline(area: Shown, words: Sequence[str]) -> str:
    """Return the line around the cells of the words of `ground` that are not outside, as a path."""
    rows, columns = area.cells
    edge = edge_of(area.cells)

    def inside(row: int, column: int) -> bool:
        within = 0 <= row < rows and 0 <= column < columns
        return within and words[row + area.first][column] not in ". "

    lines = []
    for row in range(rows + 1):
        for column in range(columns + 1):
            x, y = LEFT + column * edge, TOP + row * edge
            here = inside(row, column)
            if here != inside(row - 1, column):
                lines.append(f"M{x} {y}h{edge}")
            if here != inside(row, column - 1):
                lines.append(f"M{x} {y}v{edge}")
    return "".join(lines)


def covered(raster: Raster) -> list[str]:
    """The cells that have points, as `ground` takes them."""
    truths = raster.covered(0, raster.points)
    return ["".join("#" if truth else " " for truth in row) for row in truths]


def strengths(counts: Sequence[Sequence[int]]) -> list[float]:
    """How strongly each count is drawn: its logarithm beside that of the greatest."""
    most = max((count for _, _, count in counts), default=1)
    scale = math.log2(most + 1)
    return [0.4 + 0.6 * math.log2(count + 1) / scale for _, _, count in counts]


def cell_name(area: Shown, row: int, column: int, spell: Callable[[int], str], until: int) -> str:
    """The cells from one to a column: their point, or their first and last, by `spell`."""
    first_row, last_row, first, _ = area.points(row, column)
    last = area.points(row, until)[3]
    columns = area.raster.columns
    low, high = first_row * columns + first, last_row * columns + last
    if low < area.raster.points:
        high = min(high, area.raster.points - 1) if low >= 0 else high
    return spell(low) if low == high else f"{spell(low)} to {spell(high)}"


def labels(area: Shown, edge: int, number: Callable[[int], int]) -> list[Label]:
    """Numbers beside the rows and above the columns; `number` is that of a row of points."""
    rows, columns = area.cells
    step = -(-SPACING // edge)
    found = [
        Label(LEFT - 6, TOP + (row + 0.5) * edge + 4, _short(number(area.points(row, 0)[0])), "end")
        for row in range(0, rows, step)
    ]
    last = area.raster.columns - 1
    found.append(Label(LEFT + edge / 2, TOP - 6, "0", "middle"))
    if last:
        found.append(Label(LEFT + (columns - 0.5) * edge, TOP - 6, _short(last), "middle"))
    return found


def _short(number: int) -> str:
    """A number in at most six characters or so."""
    for unit, power in (("G", 9), ("M", 6), ("k", 3)):
        if abs(number) >= 10 ** (power + 2):
            return f"{number / 10**power:.1f}{unit}"
    return str(number)


def times(extents: Sequence[int]) -> str:
    """Extents, as in 8 x 32."""
    return f" {TIMES} ".join(f"{extent:,}" for extent in extents)


def scale(raster: Raster, what: str) -> list[str]:
    """What a cell stands for, where it is more than one point."""
    if raster.high == raster.wide == 1:
        return []
    return [f"A cell is {times([raster.high, raster.wide])} {what}."]


def heat(
    key: str,
    what: What,
    title: str,
    caption: list[str],
    area: Shown,
    found: Mapping[str, Any],
    cells: Sequence[str],
    ink: Ink,
    keys: Container[str] = (),
) -> Drawing:
    """The picture of a heat's JSON over its cells, which are given as `ground` takes them.

    Cells beside each other that count the same are drawn as one, but for those named by `keys`.
    """
    hot = list(_hot(key, what, area, found["counts"], ink, keys))
    table = [(box.title, box.count) for box in hot]
    where = ", ".join(name for name, _ in table[:3])
    rest = f" and {len(table) - 3} more" if len(table) > 3 else ""
    return Drawing(
        key,
        what.kind,
        title,
        caption,
        f"{title}. {ink.word.capitalize()}: {where}{rest}.",
        area.cells,
        [*ground(area, cells), *hot],
        labels(area, edge_of(area.cells), what.number),
        table[:LISTED],
        max(0, len(table) - LISTED),
        [(ink.style, ink.word)],
    )


def _hot(
    key: str,
    what: What,
    area: Shown,
    counts: Sequence[Sequence[int]],
    ink: Ink,
    keys: Container[str],
) -> Iterator[Box]:
    shades = strengths(counts)
    names = [f"{key}-{row * area.cells[1] + column}" for row, column, _ in counts]
    for run in _runs(counts, [name in keys for name in names]):
        first = run[0]
        row, column, count = counts[first]
        name = cell_name(area, row - area.first, column, what.spell, counts[run[-1]][1])
        cell = names[first] if names[first] in keys else ""
        place = row - area.first, column, len(run)
        yield Box(*place, ink.style, shades[first], cell, name, count)


def _runs(counts: Sequence[Sequence[int]], alone: Sequence[bool]) -> Iterator[list[int]]:
    """Cells beside each other that count the same, by their indices; some are each alone."""
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
