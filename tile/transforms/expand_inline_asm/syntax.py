"""Parse inline PTX: declarations of registers, instructions, labels, scopes and comments.

PTX ISA 8.5, "Syntax".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tile.errors import CompilationError


@dataclass(frozen=True)
class Name:
    """A register: `$0`, `tmp`, `%p1`, or the sink `_`. `negated`: the operand is `!name`."""

    text: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A number: an integer, a float, or with `width` the bits of a float in hexadecimal."""

    value: int | float
    width: int = 0

    @property
    def exact(self) -> float:
        """The number as a float; bits of a float as the float."""
        if self.width:
            size = {32: "f", 64: "d"}[self.width]
            number: float = struct.unpack(
                f"<{size}", int(self.value).to_bytes(self.width // 8, "little")
            )[0]
            return number
        return float(self.value)


@dataclass(frozen=True)
class Group:
    """Several registers as one operand: a vector `{a, b}`, or a pair of predicates `p|q`."""

    members: tuple[Name | Immediate, ...]
    braces: bool = True


@dataclass(frozen=True)
class Address:
    """A place in memory: a register plus a number of bytes."""

    base: Name
    offset: int = 0


Operand: TypeAlias = Name | Immediate | Group | Address


@dataclass(frozen=True)
class Declaration:
    """Registers of a type, such as `.reg .b32 a, b<4>;`."""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    """An instruction with the predicate that guards it, and where it stands in the text."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Name | None
    line: int
    text: str

    def take(self, count: int) -> Sequence[Operand]:
        """Return the operands. Raises `CompilationError` if their number is another."""
        if len(self.operands) != count:
            raise self.refusal(
                f"it takes {count} operands, the result included, not {len(self.operands)}"
            )
        return self.operands

    def unsupported(self, detail: str = "") -> CompilationError:
        """Return the error of an instruction without rule."""
        return self.refusal(
            f"only GPUs of NVIDIA execute this instruction{detail}; for other backends give "
            "`reference=f`, a @tile.jit function of the arguments that returns the results"
        )

    def refusal(self, message: str) -> CompilationError:
        """Return an error about this instruction."""
        return CompilationError(f"line {self.line} of the asm, `{self.text}`: {message}")


@dataclass(frozen=True)
class Label:
    """A place that branches name, such as `done:`."""

    name: str


class Scope(Enum):
    """The begin or end of a scope of names."""

    BEGIN = "{"
    END = "}"


Statement: TypeAlias = Declaration | Instruction | Label | Scope

MOST_REGISTERS = 1 << 16  # of one declaration

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<placeholder>\$\d+|\$\{\d+\})
    |(?P<bits>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})
    |(?P<float>-?\d+\.\d*(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+)
    |(?P<integer>-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?)
    |(?P<word>[%A-Za-z_][\w]*(?:(?:\.|::)\w+)*|\.\w+(?:\.\w+)*)
    |(?P<mark>[{}(),;@!|<>\[\]:+])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def parse(asm: str) -> list[Statement]:
    """Return the statements of inline PTX. Raises `CompilationError` for what it does not have."""
    blanked = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), asm)
    return list(_Parser(blanked).statements())


class _Parser:
    def __init__(self, asm: str) -> None:
        self.asm = asm
        self.tokens = list(self._tokens())
        self.position = 0
        self.start = 0

    def _tokens(self) -> Iterator[_Token]:
        position, end = 0, len(self.asm.rstrip())
        while position < end:
            match = _TOKEN.match(self.asm, position)
            if match is None:
                self.start = position
                raise self._error(f"cannot read `{self.asm[position:].split()[0]}`")
            kind = match.lastgroup or ""
            yield _Token(kind, match.group(kind), match.start(kind), match.end())
            position = match.end()

    def statements(self) -> Iterator[Statement]:
        while self.position < len(self.tokens):
            self.start = self.tokens[self.position].start
            if self._accept("{"):
                yield Scope.BEGIN
            elif self._accept("}"):
                yield Scope.END
            elif not self._accept(";"):
                yield self._statement()

    def _statement(self) -> Statement:
        if self._accept(".reg"):
            return self._declaration()
        following = self.tokens[self.position + 1 : self.position + 2]
        if following and following[0].text == ":":
            label = Label(self._word("a label"))
            self._expect(":")
            return label
        return self._instruction()

    def _declaration(self) -> Declaration:
        ty = self._word("a type, such as .b32").removeprefix(".")
        names: list[str] = []
        while not names or self._accept(","):
            name = self._word("a register's name")
            if self._accept("<"):
                count = self._integer(self._take("integer", "a number of registers"))
                if not 0 < count <= MOST_REGISTERS:
                    raise self._error(f"1 to {MOST_REGISTERS} registers, not {count}")
                self._expect(">")
                names += [f"{name}{number}" for number in range(count)]
            else:
                names.append(name)
        self._expect(";")
        return Declaration(ty, tuple(names))

    def _instruction(self) -> Instruction:
        guard = None
        if self._accept("@"):
            negated = self._accept("!")
            guard = Name(self._register(), negated)
        opcode = self._word("an instruction")
        operands: list[Operand] = []
        if not self._accept(";"):
            operands.append(self._operand())
            while self._accept(","):
                operands.append(self._operand())
            self._expect(";")
        last = self.tokens[self.position - 1]
        text = " ".join(self.asm[self.start : last.end].split())
        return Instruction(opcode, tuple(operands), guard, self._line(), text)

    def _operand(self) -> Operand:
        if self._accept("{"):
            members = [self._single()]
            while self._accept(","):
                members.append(self._single())
            self._expect("}")
            return Group(tuple(members))
        if self._accept("["):
            return self._address()
        first = self._single()
        if self._accept("|"):
            return Group((first, self._single()), braces=False)
        return first

    def _address(self) -> Address:
        base, offset = Name(self._register()), 0
        if self._accept("+"):
            offset = self._integer(self._take("integer", "a number of bytes"))
        self._expect("]")
        return Address(base, offset)

    def _single(self) -> Name | Immediate:
        token = self._next("an operand")
        if token.kind == "integer":
            return Immediate(self._integer(token.text))
        if token.kind == "float":
            return Immediate(float(token.text))
        if token.kind == "bits":
            return Immediate(int(token.text[2:], 16), 32 if token.text[1] in "fF" else 64)
        if token.text == "!":
            return Name(self._register(), negated=True)
        self.position -= 1
        return Name(self._register())

    def _integer(self, text: str) -> int:
        """Return an integer, which is octal if it begins with 0, as in C (PTX ISA, 4.5.1)."""
        digits = text.removesuffix("U")
        octal = digits.lstrip("-").startswith("0") and digits.lstrip("-").isdecimal()
        try:
            return int(digits, 8 if octal else 0)
        except ValueError:
            raise self._error(f"`{text}` is no octal number") from None

    def _register(self) -> str:
        token = self._next("a register")
        if token.kind not in ("placeholder", "word"):
            raise self._error(f"expected a register, not `{token.text}`")
        return token.text.replace("{", "").replace("}", "")

    # -- tokens

    def _next(self, expected: str) -> _Token:
        if self.position == len(self.tokens):
            raise self._error(f"expected {expected} before the end")
        self.position += 1
        return self.tokens[self.position - 1]

    def _take(self, kind: str, expected: str) -> str:
        token = self._next(expected)
        if token.kind != kind:
            raise self._error(f"expected {expected}, not `{token.text}`")
        return token.text

    def _word(self, expected: str) -> str:
        return self._take("word", expected)

    def _accept(self, text: str) -> bool:
        accepted = self.position < len(self.tokens) and self.tokens[self.position].text == text
        self.position += accepted
        return accepted

    def _expect(self, text: str) -> None:
        token = self._next(f"`{text}`")
        if token.text != text:
            raise self._error(f"expected `{text}`, not `{token.text}`")

    def _line(self) -> int:
        return self.asm.count("\n", 0, self.start) + 1

    def _error(self, message: str) -> CompilationError:
        text = self.asm[self.start :].strip().split("\n")[0].split(";")[0]
        return CompilationError(f"line {self._line()} of the asm, `{text}`: {message}")
