"""The text of layouts, such as `#linear{register = [[1], [2]], lane = [] -> dim0 = 4}`.

    layout = "#linear{" [input {"," input}] "->" [output {"," output}] "}"
    input  = name "=" "[" [basis {"," basis}] "]"          one basis for each bit, lowest first
    basis  = "[" [number {"," number}] "]"                 one coordinate for each output
    output = name "=" number                               its size

Space may stand between any two words. The text has no brace but its first and last, so one that is
part of a longer text, such as a type's, ends at the first `}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from tile.errors import ParseError

_WORD = re.compile(r"\s*(#linear|->|[{}\[\],=]|[0-9]+|[^\W\d]\w*|\S|$)")

T = TypeVar("T")
Bases = Sequence[Sequence[int]]


def read_layout(text: str) -> tuple[dict[str, Bases], dict[str, int]]:
    """Return the bases of the inputs and the sizes of the outputs. Raises `ParseError`."""
    reader = _Reader(text)
    reader.expect("#linear")
    reader.expect("{")
    ins = reader.several(lambda: reader.entry(reader.bases), end="->")
    outs = reader.several(lambda: reader.entry(reader.number), end="}")
    if reader.word:
        reader.fail("nothing more")
    return reader.mapping(ins), reader.mapping(outs)


class _Reader:
    """A position in the text: `word` is the next token, "" at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = _WORD.finditer(text)
        self.word = ""
        self.start = 0
        self.advance()

    def advance(self) -> str:
        """Consume the token, and read the next one."""
        taken = self.word
        match = next(self._words)
        self.word, self.start = match.group(1), match.start(1)
        return taken

    def fail(self, expected: str) -> NoReturn:
        actual = repr(self.word) if self.word else "the end"
        raise ParseError(
            f"a layout has {expected} at column {self.start + 1}, not {actual}",
            notes=[self.text, " " * self.start + "^"],
        )

    def expect(self, word: str) -> None:
        if self.word != word:
            self.fail(repr(word))
        self.advance()

    def number(self) -> int:
        if not self.word.isdecimal():
            self.fail("a number")
        return int(self.advance())

    def bases(self) -> Bases:
        self.expect("[")
        return self.several(self.basis, end="]")

    def basis(self) -> list[int]:
        self.expect("[")
        return self.several(self.number, end="]")

    def entry(self, value: Callable[[], T]) -> tuple[str, T]:
        if not self.word.isidentifier():
            self.fail("the name of a dimension")
        name = self.advance()
        self.expect("=")
        return name, value()

    def several(self, read: Callable[[], T], end: str) -> list[T]:
        """Parse items by `read`, separated by commas, and the token `end`."""
        items: list[T] = []
        while self.word != end:
            if items:
                self.expect(",")
            items.append(read())
        self.advance()
        return items

    def mapping(self, entries: list[tuple[str, T]]) -> dict[str, T]:
        names = [name for name, _ in entries]
        for name in names:
            if names.count(name) > 1:
                raise ParseError(f"a layout names {name} once, not {names.count(name)} times")
        return dict(entries)
