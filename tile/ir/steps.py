"""Which kernels get `step`s, and what those say of the variables of the program.

A variable is a text, as an attribute can hold it:

    x             the next of the step's values
    d @ 5         a descriptor: the next value, or the next five once it is taken apart
    BLOCK = 128   known while the kernel is compiled; the text is Python's
    y ! why       without a value here

Items of tuples are variables of their own: `t.0`, or `t.field` of a named one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from tile.ir.types import Descriptor, Type

T = TypeVar("T")

# What a function returns, among the variables where it ends; no name is spelt like it.
RESULT = "->"

_MARKS = (" = ", " ! ", " @ ")


class Steps(enum.Enum):
    """Which kernels get `step`s, by which a debugger knows where they are."""

    NEVER = enum.auto()
    AT_BREAKPOINTS = enum.auto()  # those that call `breakpoint()`
    ALWAYS = enum.auto()


@dataclass(frozen=True)
class Variable:
    """A name, and one of: how many values it has, the text of what is known, or why it has none."""

    name: str
    values: int = 0
    known: str | None = None
    missing: str | None = None

    @classmethod
    def parse(cls, text: str) -> Variable:
        """Read what `str` writes. Raises `ValueError` for a number of values that is none."""
        found = [(text.find(mark), mark) for mark in _MARKS if mark in text]
        if not found:
            return cls(text, 1)
        at, mark = min(found)
        name, rest = text[:at], text[at + len(mark) :]
        if mark == " @ ":
            if not rest.isdecimal():
                raise ValueError(f"`{name}` takes a number of values, not `{rest}`")
            return cls(name, int(rest))
        return cls(name, known=rest) if mark == " = " else cls(name, missing=rest)

    def __str__(self) -> str:
        if self.known is not None:
            return f"{self.name} = {self.known}"
        if self.missing is not None:
            return f"{self.name} ! {self.missing}"
        return self.name if self.values == 1 else f"{self.name} @ {self.values}"


def shared_out(
    variables: Sequence[str], types: Sequence[Type], values: Sequence[T]
) -> Iterator[tuple[Variable, list[T]]]:
    """Each variable with those of the values that are its own.

    Raises `ValueError` if there are more or fewer values than the variables have.
    """
    rest = iter(list(zip(types, values, strict=True)))
    for text in variables:
        variable = Variable.parse(text)
        own = list(islice(rest, min(1, variable.values)))
        whole = bool(own) and isinstance(own[0][0], Descriptor)
        if own and not whole:
            own += islice(rest, variable.values - 1)
        if not whole and len(own) != variable.values:
            raise ValueError(f"`{variable.name}` takes {variable.values} values, not {len(own)}")
        yield variable, [value for _, value in own]
    if next(rest, None) is not None:
        raise ValueError("there are more values than variables")
