"""Source locations, and every error that `tile` raises.

A `Loc` is a place in the user's Python file together with the chain of calls that led there. Code
that checks something raises without a location; whoever knows the place (builder, pass manager,
machine) stamps it with `with stamp(loc):`. An error renders itself as message, source excerpt
with a caret under the expression, and call chain, so that printing the exception is all a caller
ever needs to do. Messages, notes and source lines are of bounded length (`tile.brief`).
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tile.brief import clipped, window

if TYPE_CHECKING:
    from tile.faults import Fault


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of source text: 1-based `line`, 0-based `column`, and the call it was inlined at."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Loc | None = None

    def __str__(self) -> str:
        column = "" if cell_of(self.file) else f":{self.column + 1}"
        return line_of(self.file, self.line) + column

    def called_from(self, caller: Loc | None) -> Loc:
        """The same place, reached through one more call, at the outer end of the chain."""
        if caller is None:
            return self
        if self.caller is None:
            return replace(self, caller=caller)
        return replace(self, caller=self.caller.called_from(caller))

    def chain(self) -> Iterator[Loc]:
        """This place, then each call that led to it, innermost first."""
        place: Loc | None = self
        while place is not None:
            yield place
            place = place.caller

    def excerpt(self) -> str:
        """The source line with carets under the span, or nothing when the file cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        number = f"{self.line} | "
        text, column, end = window(text, self.column, min(self.end_column, len(text)))
        width = max(1, end - column)
        indent = "".join("\t" if c == "\t" else " " for c in text[:column])
        return f"{number}{text}\n{' ' * (len(number) - 2)}| {indent}{'^' * width}"


CALLS = 12  # of a chain that are shown at either end


def cell_of(file: str) -> str:
    """The name that IPython gives to a cell, such as `Cell In[3]`; nothing for other files.

    IPython compiles each cell under a file name of its own, and knows which is whose.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return "" if named is None else " ".join(named)


def line_of(file: str, line: int) -> str:
    """A line of a file as `file:line`, or as IPython names it."""
    cell = cell_of(file)
    return f"{cell}, line {line}" if cell else f"{file}:{line}"


def describe(loc: Loc) -> str:
    """A location as the lines of a report: place, excerpt, then the chain of calls."""
    lines: list[str] = []
    places = list(loc.chain())
    for depth, place in enumerate(places):
        if CALLS <= depth < len(places) - CALLS:
            if depth == CALLS:
                lines.append(f"  ... called through {len(places) - 2 * CALLS} more")
            continue
        inside = f", in {place.function}" if place.function else ""
        lines.append(f"{'  at' if depth == 0 else '  called from'} {place}{inside}")
        excerpt = place.excerpt()
        if excerpt:
            lines.extend("    " + line for line in excerpt.splitlines())
    return "\n".join(lines)


class TileError(Exception):
    """Base of all errors of this package.

    `message` says what was wrong and what would be right, `loc` is the user's place (None until
    stamped) and `notes` are further facts, one to a line.
    """

    def __init__(self, message: str, *, loc: Loc | None = None, notes: Sequence[str] = ()) -> None:
        message = clipped(message)
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.notes = list(notes)

    def __str__(self) -> str:
        parts = [self.message]
        if self.loc is not None:
            parts.append(describe(self.loc))
        parts.extend(f"  note: {clipped(note)}" for note in self.notes)
        return "\n".join(parts)


class TypeRuleError(TileError):
    """An operation was given operands or attributes that its type rule refuses."""


class CompilationError(TileError):
    """The kernel's Python source is not a valid tile program."""


class OutOfResourcesError(CompilationError):
    """The kernel needs more registers, shared memory or threads than the machine has."""


class ArgumentError(TileError):
    """A kernel, grid or tool was called with something it cannot take."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is missing, unknown or of the wrong kind."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is of the right kind with a value that cannot be used."""


class HookError(TileError):
    """A function that the user gave to a tuner or to `heuristics` raised; `__cause__` is that."""


class IRError(TileError):
    """The IR itself is wrong."""


class ParseError(IRError):
    """IR text that does not follow the grammar."""


class VerificationError(IRError):
    """IR that breaks a rule of its level."""


class PassError(IRError):
    """A pass failed or was asked for in a way it does not offer."""


class BackendError(TileError):
    """A backend is unknown or cannot be used here."""


class UnsupportedError(BackendError):
    """A backend's table lacks what the program needs."""


class ExecutionError(TileError):
    """A fault found while a kernel ran; as data in `fault`, if a check of the grid found it."""

    fault: Fault | None = None


class OutOfBoundsError(ExecutionError):
    """An access outside the array or view that was passed."""


class DataRaceError(ExecutionError):
    """Two programs touched one place, one to write, and nothing says which of them was first.

    Or one store wrote two different values to one place.
    """


class UndefinedValueError(ExecutionError):
    """A value that nobody defined reached memory, a branch, an address or an atomic operation."""


class IntegerOverflowError(ExecutionError):
    """Signed arithmetic wrapped on its way to an address, a mask or the bounds of a loop."""


class BrokenAssumptionError(ExecutionError):
    """A promise to the compiler is false: `assume`, `multiple_of` and the like, an alignment."""


class VectorAccessError(OutOfBoundsError):
    """A vector in memory that is not in a row, not aligned to its size, or masked in part."""


class SharedMemoryError(ExecutionError):
    """A wrong use of shared memory."""


class SharedBoundsError(SharedMemoryError, OutOfBoundsError):
    """An access outside the buffer."""


class UndefinedReadError(SharedMemoryError):
    """A read of shared memory to which nothing was written."""


class RaceError(ExecutionError):
    """Two threads of a program touched one place, one to write, with no barrier in between."""


class CopyInFlightError(SharedMemoryError):
    """An access where an asynchronous copy goes that nobody has waited for."""


class ArrivalError(SharedMemoryError):
    """A wrong use of a barrier on which bulk copies arrive."""


class ProductInFlightError(SharedMemoryError):
    """A use of what a product of a group of warps computes or reads, before it was waited for."""


class DivergenceError(ExecutionError):
    """An operation of a whole warp or program that some of its threads do not take part in."""


class DeadlockError(ExecutionError):
    """Every program that is left waits for something that no program can do."""


class DeviceAssertionError(ExecutionError):
    """A `device_assert` was false."""


@contextmanager
def stamp(loc: Loc | None) -> Iterator[None]:
    """Give `loc` to a `TileError` raised inside that has no location yet."""
    try:
        yield
    except TileError as error:
        if error.loc is None:
            error.loc = loc
        raise
