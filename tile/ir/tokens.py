"""Tokens of IR text, and a reader of them that reports what it expected, and where."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tile.errors import ParseError
from tile.location import Loc

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*|;[^\n]*)
    |(?P<newline>\n)
    |(?P<value>%[^\W\d][\w.]*)
    |(?P<predicate>@%[^\W\d][\w.]*)
    |(?P<symbol>@[^\W\d][\w.]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<layout>\#[a-z]+(?:\{[^{}]*\})?)
    |(?P<dims>[0-9]+(?:x[0-9]+)*x(?=[a-z]))
    |(?P<number>-?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|inf\b|nan\b))
    |(?P<word>[A-Za-z_][\w\-]*)
    |(?P<arrow>->)
    |(?P<punctuation>[{}()<>\[\],:=^\-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A token and its position; `kind` is the name of its group in the expression above."""

    kind: str
    text: str
    line: int
    column: int


def _tokens(text: str, file: str) -> list[Token]:
    tokens = []
    position, line, start = 0, 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            loc = Loc(file, line, position - start, position - start + 1)
            raise ParseError(f"unexpected character {text[position]!r}", loc=loc)
        kind = match.lastgroup or ""
        if kind == "newline":
            line, start = line + 1, match.end()
        elif kind != "space":
            tokens.append(Token(kind, match.group(), line, position - start))
        position = match.end()
    tokens.append(Token("end", "end of text", line, position - start))
    return tokens


class TokenReader:
    """A position in the tokens of a text."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.text = text
        if file.startswith("<"):  # lets error messages quote text that is in no file
            lines = text.splitlines(keepends=True)
            linecache.cache[file] = (len(text), None, lines, file)
        self.tokens = _tokens(text, file)
        self.position = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def loc(self, token: Token | None = None) -> Loc:
        token = token or self.token
        return Loc(self.file, token.line, token.column, token.column + len(token.text))

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        raise ParseError(message, loc=self.loc(token))

    def take(self) -> Token:
        token = self.token
        self.position += 1
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind != "string"

    def accept(self, text: str) -> bool:
        matches = self.at(text)
        self.position += matches
        return matches

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected `{text}`, found `{self.token.text}`")

    def until(self, close: str) -> Iterator[None]:
        """Iterate over the items of a list with commas, up to and including `close`."""
        while not self.accept(close):
            yield
            if not self.at(close):
                self.expect(",")

    def expect_kind(self, kind: str, description: str) -> Token:
        if self.token.kind != kind:
            self.fail(f"expected {description}, found `{self.token.text}`")
        return self.take()

    def expect_end(self) -> None:
        if self.token.kind != "end":
            self.fail(f"expected the end of the text, found `{self.token.text}`")

    def integer(self) -> int:
        token = self.expect_kind("number", "an integer")
        try:
            return int(token.text)
        except ValueError:
            self.fail(f"expected an integer, found `{token.text}`", token)
