"""Names and what they stand for, and why a name cannot be used where paths disagree about it."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable
from dataclasses import dataclass

from tile.errors import CompilationError, Loc
from tile.frontend.values import describe


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A loop being compiled, and the one around it.

    `names` are those that go on into its next turn; None for all of them, in a loop that is
    unrolled.
    """

    names: frozenset[str] | None
    outer: Loop | None

    def carries(self, name: str) -> bool:
        return self.names is None or name in self.names

    def tested(self, name: str) -> bool:
        """Whether the condition of a loop around may see the name even after the loop is left."""
        own = self.names is not None and name in self.names
        return own or (self.outer is not None and self.outer.tested(name))


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """What a name stands for, and where it was assigned.

    A path that left the rest of an iteration of the `doubtful` loop did not assign it: the name may
    be used as long as only paths that stayed can come here.
    """

    value: object
    loc: Loc
    doubtful: Loop | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """A name that is assigned on some paths to here and not on others."""

    where: str
    loc: Loc

    def error(self, name: str, loc: Loc) -> CompilationError:
        return CompilationError(
            f"`{name}` may have no value here: it is assigned {self.where}",
            loc=loc,
            notes=[
                place(f"`{name}` is assigned", self.loc),
                f"assign `{name}` before that too, so that it has a value on every path",
            ],
        )


@dataclass(frozen=True, eq=False, slots=True)
class Conflict:
    """A name for which two paths to here have values that nothing can stand for both of."""

    first: Binding
    second: Binding

    def error(self, name: str, loc: Loc) -> CompilationError:
        a, b = self.first, self.second
        error = CompilationError(
            f"`{name}` is {describe(a.value)} on one path to here and {describe(b.value)} on "
            "another; it must be of one type on all paths",
            loc=loc,
            notes=[place(describe(x.value), x.loc) for x in (a, b)],
        )
        if a.loc == b.loc:
            error.notes.pop()
        return error


Entry = Binding | Partial | Conflict
Scope = dict[str, Entry]


def place(what: str, loc: Loc) -> str:
    """A note that names another place, with its source line."""
    text = linecache.getline(loc.file, loc.line).strip()
    return f"{what} at {loc}: {text}" if text else f"{what} at {loc}"


def undefined(name: str, known: Iterable[str], loc: Loc) -> CompilationError:
    """The error for a name that nothing assigns."""
    near = difflib.get_close_matches(name, [k for k in known if k != name], n=3)
    hint = f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
    return CompilationError(f"`{name}` is not defined{hint}", loc=loc)


def assigned_later(name: str, first: Loc, loc: Loc) -> CompilationError:
    """The error for a local name that is read before anything assigned it."""
    return CompilationError(
        f"`{name}` has no value yet: it is assigned only later",
        loc=loc,
        notes=[
            place(f"`{name}` is assigned", first),
            f"a name that a function assigns is its own; no global `{name}` is looked up",
        ],
    )
