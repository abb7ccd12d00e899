"""Breakpoints: where programs stop, and which ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tile.backends.interp.values import Array
from tile.debugger.conditions import Condition
from tile.debugger.source import display_path, same_file


class NoBreakpointError(Exception):
    """Raised for a number that no breakpoint has."""


@dataclass(eq=False)
class Breakpoint:
    """A breakpoint at a line of a file, at the first line of a function, or at any line.

    It stops the programs for which `condition` is true, after it was passed `ignore` times. One at
    any line stops programs for which the condition was not true at their previous line.
    """

    number: int
    file: str | None = None
    line: int | None = None
    function: str | None = None
    condition: Condition | None = None
    temporary: bool = False
    enabled: bool = True
    ignore: int = 0
    hits: int = 0
    held: Array | None = None  # at any line: True for each program whose condition held last

    @property
    def anywhere(self) -> bool:
        return self.line is None and self.function is None

    @property
    def place(self) -> str:
        """Its location, as messages name it."""
        if self.line is not None and self.file is not None:
            return f"{display_path(self.file)}:{self.line}"
        return self.function if self.function is not None else "any line"

    def __str__(self) -> str:
        """Return the line of a table, in pdb's form."""
        disposition = "del " if self.temporary else "keep"
        enabled = "yes" if self.enabled else "no "
        lines = [f"{self.number:<4}breakpoint   {disposition} {enabled}   at {self.place}"]
        if self.condition is not None:
            lines.append(f"\tstop only if {self.condition}")
        if self.ignore:
            lines.append(f"\tignore next {self.ignore} hits")
        if self.hits:
            lines.append(f"\tbreakpoint already hit {self.hits} time{'s' * (self.hits != 1)}")
        return "\n".join(lines)

    def is_at(self, file: str, line: int) -> bool:
        return self.line == line and self.file is not None and same_file(self.file, file)


HEADER = "Num Type         Disp Enb   Where"


class Breakpoints:
    """All breakpoints of a session, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Breakpoint] = {}
        self.last_number = 0
        self.version = 0  # incremented by each change

    def add(
        self,
        *,
        file: str | None = None,
        line: int | None = None,
        function: str | None = None,
        condition: Condition | None = None,
        temporary: bool = False,
    ) -> Breakpoint:
        """Add a breakpoint."""
        self.last_number += 1
        self.version += 1
        one = Breakpoint(self.last_number, file, line, function, condition, temporary)
        self.by_number[one.number] = one
        return one

    def get(self, text: str) -> Breakpoint:
        """Return the breakpoint of a number. Raises `NoBreakpointError`."""
        if not text.isdecimal():
            raise NoBreakpointError(f"a breakpoint is named by its number, not `{text}`")
        breakpoint_ = self.by_number.get(int(text))
        if breakpoint_ is None:
            raise NoBreakpointError(f"there is no breakpoint {text}; `b` lists them")
        return breakpoint_

    def remove(self, one: Breakpoint) -> None:
        self.by_number.pop(one.number, None)
        self.version += 1

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self.by_number.values()))

    def __str__(self) -> str:
        return "\n".join([HEADER, *map(str, self)])
