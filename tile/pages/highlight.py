"""Python source as spans of one color each."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

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
    """Return the class of each character of each line; "" if the lines are no whole program."""
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
