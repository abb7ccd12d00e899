"""Source listings: the functions that have annotated lines, with their annotations.

Python source is highlighted as spans of one color each.
"""

from __future__ import annotations

import io
import keyword
import linecache
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from tile.debugger.source_files import functions, span
from tile.location import cell_of

# Classes of the style sheet, by kind of token.
CLASSES = {
    tokenize.COMMENT: "comment",
    tokenize.STRING: "string",
    tokenize.NUMBER: "number",
}
# The class of an annotated range, in addition to that of its token.
HIGHLIGHTED = "here"


@dataclass(frozen=True)
class Span:
    """Text with its classes, separated by spaces."""

    text: str
    classes: str

    def stripped(self) -> Span:
        """Return the span without leading blanks."""
        return replace(self, text=self.text.lstrip())


def token_classes(lines: Sequence[str]) -> list[list[str]]:
    """Return the class of each character of each line; "" if the lines are not a program."""
    classes = [[""] * len(line) for line in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            word = _class(token)
            if word:
                _paint(classes, token.start, token.end, word)
    except (tokenize.TokenError, SyntaxError):
        return [[""] * len(line) for line in lines]
    return classes


def _class(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    return CLASSES.get(token.type, "")


def _paint(
    classes: list[list[str]], start: tuple[int, int], end: tuple[int, int], word: str
) -> None:
    for number in range(start[0], end[0] + 1):
        line = classes[number - 1]
        first = start[1] if number == start[0] else 0
        last = min(len(line), end[1] if number == end[0] else len(line))
        line[first:last] = [word] * (last - first)


def spans(
    text: str, classes: Sequence[str], highlighted: Sequence[tuple[int, int]] = ()
) -> Iterator[Span]:
    """Yield the spans of a line; `highlighted` are ranges of columns."""
    words = list(classes)
    for first, last in highlighted:
        for column in range(first, min(last, len(words))):
            words[column] = f"{words[column]} {HIGHLIGHTED}".strip()
    for word, group in groupby(zip(text, words, strict=True), key=lambda pair: pair[1]):
        yield Span("".join(character for character, _ in group), word)


# A function of up to `WHOLE` lines is shown whole; of a longer one, `AROUND` lines around each
# annotated one are.
WHOLE = 120
AROUND = 6


@dataclass(frozen=True)
class Annotation:
    """A text on a range of columns of a source line, and the element id that it links to."""

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
    spans: list[Span]
    annotations: list[Annotation] = field(default_factory=list)
    skipped: int = 0  # the number of lines before it that are not shown


@dataclass
class Listing:
    """The visible lines of one file."""

    file: str
    lines: list[Line]

    @property
    def name(self) -> str:
        """The file's name without its folder, or the name of a notebook's cell."""
        return cell_of(self.file) or Path(self.file).name


def listings(annotations: Iterable[Annotation]) -> list[Listing]:
    """Return the listings of the files that have annotations and can be read."""
    by_file: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_file.setdefault(annotation.file, []).append(annotation)
    candidates = (Listing(file, list(_lines(file, own))) for file, own in by_file.items())
    return [listing for listing in candidates if listing.lines]


def _lines(file: str, annotations: Sequence[Annotation]) -> Iterator[Line]:
    text = [line.rstrip("\n") for line in linecache.getlines(file)]
    classes = token_classes(text)
    previous = 0
    for number in sorted(_visible_lines(file, len(text), {one.line for one in annotations})):
        own = [annotation for annotation in annotations if annotation.line == number]
        columns = [annotation.columns for annotation in own]
        line_spans = spans(text[number - 1], classes[number - 1], columns)
        yield Line(number, list(line_spans), own, number - previous - 1)
        previous = number


def _visible_lines(file: str, count: int, annotated: set[int]) -> set[int]:
    """Return the numbers of the lines to show, of `count` lines of a file."""
    extents = [span(function) for function in functions(file)]
    visible: set[int] = set()
    for line in annotated:
        inside = [(first, last) for first, last in extents if first <= line <= last]
        first, last = max(inside, default=(line - AROUND, line + AROUND))
        if last - first >= WHOLE:
            first, last = max(first, line - AROUND), min(last, line + AROUND)
        visible.update(range(max(1, first), min(count, last) + 1))
    return visible
