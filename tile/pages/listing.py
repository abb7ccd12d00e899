"""Source as it is shown: functions that have marked lines, and what there is to say of them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tile.errors import cell_of
from tile.pages.highlight import Piece, coloured, pieces

# Lines of a function that is shown whole; of a longer one those around marked lines are.
WHOLE = 120
AROUND = 6


@dataclass(frozen=True)
class Mark:
    """Something to say of a place in the source: its `kind`, a text, and where it leads."""

    file: str
    line: int
    columns: tuple[int, int]
    kind: str
    text: str
    target: str = ""


@dataclass
class Line:
    """A line of a listing."""

    number: int
    pieces: list[Piece]
    marks: list[Mark] = field(default_factory=list)
    skipped: int = 0  # lines in front of it that are not shown


@dataclass
class Listing:
    """The shown lines of one file."""

    file: str
    lines: list[Line]

    @property
    def name(self) -> str:
        """The file's name without its folder, or a cell's."""
        return cell_of(self.file) or Path(self.file).name


def listings(marks: Iterable[Mark]) -> list[Listing]:
    """The files that have marks, each with its functions that have; those that can be read."""
    by_file: dict[str, list[Mark]] = {}
    for mark in marks:
        by_file.setdefault(mark.file, []).append(mark)
    found = (Listing(file, list(_lines(file, own))) for file, own in by_file.items())
    return [listing for listing in found if listing.lines]


def _lines(file: str, marks: Sequence[Mark]) -> Iterator[Line]:
    text = [line.rstrip("\n") for line in linecache.getlines(file)]
    classes = coloured(text)
    previous = 0
    for number in sorted(_shown(text, {mark.line for mark in marks})):
        own = [mark for mark in marks if mark.line == number]
        shown = pieces(text[number - 1], classes[number - 1], [mark.columns for mark in own])
        yield Line(number, list(shown), own, number - previous - 1)
        previous = number


def _shown(text: Sequence[str], marked: set[int]) -> set[int]:
    """The numbers of the lines to show."""
    functions = list(_functions("\n".join(text)))
    shown: set[int] = set()
    for line in marked:
        inside = [(first, last) for first, last in functions if first <= line <= last]
        first, last = max(inside, default=(line - AROUND, line + AROUND))
        if last - first >= WHOLE:
            first, last = max(first, line - AROUND), min(last, line + AROUND)
        shown.update(range(max(1, first), min(len(text), last) + 1))
    return shown


def _functions(text: str) -> Iterator[tuple[int, int]]:
    """The first and last line of each function, decorators among them."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield first, node.end_lineno or node.lineno
