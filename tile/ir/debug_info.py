"""Debug information: the option that inserts `debug_step`s, and the text of a step's variables.

A variable is a string attribute in one of these forms:

    x             the next of the step's values
    d @ 5         a descriptor: the next value, or the next five after its expansion
    BLOCK = 128   a compile-time constant, as Python text
    y ! reason    a variable without a value here

Items of tuples are separate variables: `t.0`, or `t.field` of a named tuple.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from tile.ir.descriptor_type import Descriptor
from tile.ir.types import Type

T = TypeVar("T")

# The variable for a function's return value, at its end; not a valid Python name.
RESULT = "->"

_SEPARATORS = (" = ", " ! ", " @ ")


class DebugSteps(enum.Enum):
    """The kernels in which the frontend inserts `debug_step`s for a debugger."""

    NEVER = enum.auto()
    AT_BREAKPOINTS = enum.auto()  # kernels that call `breakpoint()`
    ALWAYS = enum.auto()


@dataclass(frozen=True)
class Variable:
    """A variable: its name, and its number of values, its constant, or why it has no value."""

    name: str
    values: int = 0
    text: str | None = None
    reason: str | None = None

    @classmethod
    def parse(cls, text: str) -> Variable:
        """Parse the text that `str` writes. Raises `ValueError` for an invalid number of values."""
        separators = [(text.find(s), s) for s in _SEPARATORS if s in text]
        if not separators:
            return cls(text, 1)
        at, separator = min(separators)
        name, rest = text[:at], text[at + len(separator) :]
        if separator == " @ ":
            if not rest.isdecimal():
                raise ValueError(f"`{name}` takes a number of values, not `{rest}`")
            return cls(name, int(rest))
        return cls(name, text=rest) if separator == " = " else cls(name, reason=rest)

    def __str__(self) -> str:
        if self.text is not None:
            return f"{self.name} = {self.text}"
        if self.reason is not None:
            return f"{self.name} ! {self.reason}"
        return self.name if self.values == 1 else f"{self.name} @ {self.values}"


def distribute_values(
    variables: Sequence[str], types: Sequence[Type], values: Sequence[T]
) -> Iterator[tuple[Variable, list[T]]]:
    """Yield each variable with its values, taken from `values` in order.

    Raises `ValueError` if the number of values is not the one that the variables need.
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
