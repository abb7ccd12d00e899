"""Breakpoints: where programs stop, and which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tile.backends.interp.values import Array
from tile.debugger.conditions import Condition
from tile.debugger.source import same_file, shown


class NoBreakpointError(Exception):
    """There is no breakpoint of such a number."""


@dataclass(eq=False)
class Breakpoint:
    """One breakpoint: at a line of a file, at the first line of a function, or anywhere.

    Programs stop there for which `condition` is true, after it was passed `ignore` times. One that
    is anywhere stops programs for which the condition was not true at their last line.
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
    held: Array | None = (
        None  # of one that is anywhere: for which programs of the launch it is true
    )

    @property
    def anywhere(self) -> bool:
        return self.line is None and self.function is None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if self.line is not None and self.file is not None:
            return f"{shown(self.file)}:{self.line}"
        return self.function if self.function is not None else "any line"

    def __str__(self) -> str:
        """The line of a table, in pdb's form."""
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
        self.known: dict[int, Breakpoint] = {}
        self.made = 0
        self.version = 0  # counts the changes

    def add(
        self,
        *,
        file: str | None = None,
        line: int | None = None,
        function: str | None = None,
        condition: Condition | None = None,
        temporary: bool = False,
    ) -> Breakpoint:
        """Make a breakpoint."""
        self.made += 1
        self.version += 1
        one = Breakpoint(self.made, file, line, function, condition, temporary)
        self.known[one.number] = one
        return one

    def get(self, text: str) -> Breakpoint:
        """The breakpoint of a number. Raises `NoBreakpointError`."""
        if not text.isdecimal():
            raise NoBreakpointError(f"a breakpoint is named by its number, not `{text}`")
        found = self.known.get(int(text))
        if found is None:
            raise NoBreakpointError(f"there is no breakpoint {text}; `b` lists them")
        return found

    def remove(self, one: Breakpoint) -> None:
        self.known.pop(one.number, None)
        self.version += 1

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self.known.values()))

    def __str__(self) -> str:
        return "\n".join([HEADER, *map(str, self)])
