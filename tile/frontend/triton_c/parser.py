"""Parse Triton-C, and report syntax errors with what was expected."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

try:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Triton-C is parsed by the package 'lark', which is not installed; "
        "pip install 'tile-compiler[triton-c]' brings it",
        name="lark",
    ) from missing

from tile.errors import CompilationError
from tile.location import Loc

# Names of sets of tokens in messages: the name stands for them if all tokens are expected.
GROUPS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"NAME", "NUMBER", "LPAR", "SUM", "STAR"}),
        "an expression",
    ),
    (frozenset({"OR", "AND", "EQUALITY", "RELATION", "SUM", "STAR", "DIVISION"}), "an operator"),
    (frozenset({"TYPE_NAME"}), "a type"),
    (frozenset({"NAME"}), "a name"),
    (frozenset({"NUMBER"}), "a number"),
)
# Tokens that continue what any of the groups begins; naming them too would hide the others.
UNNAMED = frozenset(
    {"AMPERSAND", "BIT_OR", "BIT_XOR", "SHIFT", "STEP", "QMARK", "__ANON_0", "__ANON_1", "TILDE"}
    | {"BANG", "SIZEOF", "STRING", "TRUTH", "CONST", "CONSTANT", "RESTRICT", "READ_ONLY", "STATIC"}
    | {"INLINE", "ASSIGN_OPERATOR", "LSQB"}
).union(*(members for members, _ in GROUPS))
# Spellings in messages of tokens that the grammar defines by regular expressions.
SPELLINGS = {"EQUAL": "=", "ASSIGN_OPERATOR": "+="}


@dataclass(frozen=True)
class Text:
    """The text of a file, with its name for locations."""

    file: str
    text: str

    @functools.cached_property
    def lines(self) -> list[str]:
        return [line + "\n" for line in self.text.split("\n")]

    def loc(self, line: int, column: int, end: int | None = None, function: str = "") -> Loc:
        """Return a location; `line` and `column` count from 1."""
        return Loc(self.file, line, column - 1, column if end is None else end - 1, function)


@functools.cache
def grammar() -> Lark:
    """Return the parser of the grammar file, built once."""
    text = resources.files("tile.frontend.triton_c").joinpath("grammar.lark").read_text()
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(source: Text) -> Tree[Token]:
    """Return the parse tree of a file. Raises `CompilationError` for a syntax error."""
    try:
        return grammar().parse(source.text)
    except UnexpectedToken as error:
        raise _unexpected_token(source, error) from None
    except UnexpectedCharacters as error:
        raise CompilationError(
            f"{error.char!r} begins no token of Triton-C",
            loc=source.loc(error.line, error.column),
        ) from None
    except UnexpectedInput as error:
        raise CompilationError(str(error), loc=source.loc(error.line, error.column)) from None


def _unexpected_token(source: Text, error: UnexpectedToken) -> CompilationError:
    token = error.token
    expected = ", ".join(_names(error.accepts)) or "the end of the file"
    if token.type == "$END":
        last = len(source.text.rstrip().split("\n"))
        column = len(source.lines[last - 1].rstrip()) + 1
        message, loc = f"the file ends here; expected {expected}", source.loc(last, column)
    else:
        message = f"`{token}` is not expected here; expected {expected}"
        loc = source.loc(token.line or 1, token.column or 1, token.end_column)
    return CompilationError(f"syntax error: {message}", loc=loc, notes=_hints(str(token)))


def _hints(token: str) -> list[str]:
    if token in ("struct", "union", "enum", "typedef", "goto", "switch", "case"):
        return [f"Triton-C has no `{token}`"]
    if token == "#":
        return ["Triton-C has no preprocessor; write `const int N = 4;` for a constant"]
    return []


def _names(terminals: Iterable[str]) -> list[str]:
    """Return the names of some tokens in messages, groups first."""
    rest = set(terminals)
    names = []
    for members, name in GROUPS:
        if members <= rest:
            names.append(name)
            rest -= members
    rest -= UNNAMED if names else frozenset()
    return [*names, *sorted(f"`{_spelling(terminal)}`" for terminal in rest if terminal != "$END")]


def _spelling(terminal: str) -> str:
    defn = next((t for t in grammar().terminals if t.name == terminal), None)
    text = terminal.lower() if defn is None else str(defn.pattern.value)
    return SPELLINGS.get(terminal, text)
