"""Parser of the parts of IR text that name no operation: types, attribute values, locations.

`TokenReader` reads the tokens of a text, and reports what it expected, and where.
"""

from __future__ import annotations

import enum
import json
import linecache
import math
import re
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tile.errors import ParseError, TileError, TypeRuleError
from tile.ir.compilation_context import nesting_error
from tile.ir.core import Symbol
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.layout_kinds import LAYOUTS, Layout
from tile.ir.printer import affine_map
from tile.ir.shared_type import Shared
from tile.ir.types import SCALARS, Fragment, Pointer, Scalar, Tile, Type, require
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


_MAX_MAP_BITS = 20  # bounds the memory that a short text can demand


def parse_type(text: str) -> Type:
    """Parse one type, such as `tile<8xptr<f32>>`."""
    parser = ValueParser(text, "<type>")
    try:
        ty = parser.type_()
    except RecursionError as error:
        raise nesting_error(parser.loc()) from error
    parser.expect_end()
    return ty


class ValueParser(TokenReader):
    """A reader of types, attribute values and locations; `layouts` are those with a name."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.layouts: dict[str, Layout] = {}

    # -- types

    def type_(self) -> Type:
        token = self.token
        try:
            if self.accept("tile"):
                dims, element = self.extents()
                layout = self.layout() if self.accept(",") else None
                self.expect(">")
                return Tile(dims, element, layout)
            if self.accept("frag"):
                dims, element = self.extents()
                self.expect(">")
                return Fragment(math.prod(dims), element)
            if self.accept("shared"):
                return self.shared()
            if self.accept("desc"):
                return self.descriptor()
            return self.element()
        except TypeRuleError as error:
            self.fail(error.message, token)

    def extents(self) -> tuple[tuple[int, ...], Scalar | Pointer]:
        self.expect("<")
        dims = self.expect_kind("dims", "extents such as 8x16x").text
        return tuple(int(d) for d in dims[:-1].split("x")), self.element()

    def shared(self) -> Shared:
        dims, element = self.extents()
        self.expect(",")
        layout, counts = self.layout(), dict[str, int]()
        while self.accept(","):
            name = "used" if self.at("used") else "stages"
            self.expect(name, "=")
            counts[name] = self.integer()
        self.expect(">")
        return Shared(dims, element, layout, **counts)

    def descriptor(self) -> Descriptor:
        dims, element = self.extents()
        require(
            isinstance(element, Scalar),
            f"a descriptor has elements of a number type, not {element}",
        )
        assert isinstance(element, Scalar)
        padding = Padding(self.member(Padding).value) if self.accept(",") else Padding.ZERO
        self.expect(">")
        return Descriptor(dims, element, padding)

    def layout(self) -> Layout:
        """Parse a layout, or the name of one defined at the top of the module."""
        token = self.expect_kind("layout", "a layout, such as #a")
        if token.text in self.layouts:
            return self.layouts[token.text]
        name, brace, _ = token.text[1:].partition("{")
        if not brace:
            self.fail(f"no layout is named {token.text} at the top of the module", token)
        if name not in LAYOUTS:
            self.fail(f"there are no layouts `#{name}`; there are {', '.join(LAYOUTS)}", token)
        try:
            return LAYOUTS[name].parse(token.text)
        except TileError as error:
            inside = 0 if error.loc is None else error.loc.column
            self.fail(error.message, replace(token, column=token.column + inside, text=""))

    def layout_names(self) -> None:
        """Parse `#name = layout`, any number of times."""
        while self.token.kind == "layout":
            name = self.take().text
            self.expect("=")
            self.layouts[name] = self.layout()

    def element(self) -> Scalar | Pointer:
        if self.accept("ptr"):
            self.expect("<")
            pointee = self.element()
            self.expect(">")
            return Pointer(pointee)
        token = self.expect_kind("word", "a type")
        if token.text not in SCALARS:
            self.fail(f"unknown type `{token.text}`; scalars are {', '.join(SCALARS)}", token)
        return SCALARS[token.text]

    def types(self) -> list[Type]:
        types = [self.type_()]
        while self.accept(","):
            types.append(self.type_())
        return types

    # -- attribute values

    def attribute(self, annotation: Any) -> Any:
        """Parse a value of the type that the declaration's annotation states."""
        options = (
            typing.get_args(annotation)
            if isinstance(annotation, types.UnionType)
            else (annotation,)
        )
        token = self.token
        if type(None) in options and self.accept("none"):
            return None
        if typing.get_origin(annotation) is tuple:
            return self.sequence(typing.get_args(annotation)[0])
        for option in options:
            if isinstance(option, type) and issubclass(option, enum.Enum):
                return self.member(option)
            if option is Symbol:
                return Symbol(self.expect_kind("symbol", "a function, such as @f").text[1:])
            if option is str:
                return json.loads(self.expect_kind("string", "a string").text)
            if option is Type:
                return self.type_()
            if any(option is kind.cls for kind in LAYOUTS.values()):
                return self.layout()
        return self.literal(options, token)

    def literal(self, options: Sequence[Any], token: Token) -> bool | int | float:
        if bool in options and token.text in ("true", "false"):
            return self.take().text == "true"
        if token.kind == "number" and (int in options or float in options):
            text = self.take().text
            if int in options and re.fullmatch(r"-?\d+", text):
                return int(text)
            if float in options:
                return float(text)
        expected = " or ".join(option.__name__ for option in options)
        self.fail(f"expected a value of type {expected}, found `{token.text}`", token)

    def member(self, kind: type[enum.Enum]) -> enum.Enum:
        token = self.take()
        text = json.loads(token.text) if token.kind == "string" else token.text
        for member in kind:
            if member.value == text:
                return member
        self.fail(f"expected one of {', '.join(str(m.value) for m in kind)}, found `{text}`", token)

    def sequence(self, annotation: Any) -> tuple[Any, ...]:
        if annotation is int and (self.at("linear") or self.tokens[self.position + 1].text == "^"):
            return self.affine_map()
        self.expect("(")
        values = []
        for _ in self.until(")"):
            values.append(self.attribute(annotation))
        return tuple(values)

    def affine_map(self) -> tuple[int, ...]:
        """Parse `offset ^ linear[images]`, or without an offset; the printer explains it."""
        offset = 0
        if not self.at("linear"):
            offset = self.integer()
            self.expect("^")
        start = self.token
        self.expect("linear", "[")
        images = [self.integer()]
        while self.accept(","):
            images.append(self.integer())
        self.expect("]")
        if len(images) > _MAX_MAP_BITS:
            self.fail(f"`linear` takes at most {_MAX_MAP_BITS} images, not {len(images)}", start)
        return affine_map(offset, images)

    # -- locations

    def location(self, start: Token) -> Loc | None:
        """Parse an explicit `loc(...)`, or return the position of `start` in the text."""
        if not self.accept("loc"):
            return self.loc(start)
        self.expect("(")
        if self.accept("unknown"):
            self.expect(")")
            return None
        chain = [self.position_in_file()]
        while self.accept("at"):
            chain.append(self.position_in_file())
        self.expect(")")
        loc = chain.pop()
        while chain:
            loc = replace(chain.pop(), caller=loc)
        return loc

    def position_in_file(self) -> Loc:
        file = json.loads(self.expect_kind("string", "a file name").text)
        self.expect(":")
        line = self.integer()
        self.expect(":")
        column, end = self.integer(), 0
        if self.token.kind == "number" and self.token.text.startswith("-"):
            end = -self.integer()
        function = json.loads(self.take().text) if self.token.kind == "string" else ""
        return Loc(file, line, column, end, function)
