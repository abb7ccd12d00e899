"""Scopes: the bindings of names, and the errors for names on which paths disagree."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable
from dataclasses import dataclass

from tile.errors import CompilationError, Loc
from tile.frontend.values import describe


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A loop being compiled, and the loop around it.

    `names` are the names that it carries into the next iteration. None stands for all names, in a
    loop that is unrolled.
    """

    names: frozenset[str] | None
    outer: Loop | None

    def carries(self, name: str) -> bool:
        return self.names is None or name in self.names

    def tested(self, name: str) -> bool:
        """Return True if the test of an enclosing loop may read the name after the loop is left."""
        own = self.names is not None and name in self.names
        return own or (self.outer is not None and self.outer.tested(name))


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """The value of a name, and the location of its assignment.

    If `doubtful` is a loop, a path that left an iteration of that loop early did not assign the
    name. The name may be read as long as only the other paths reach this point.
    """

    value: object
    loc: Loc
    doubtful: Loop | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """A name that is assigned only on some of the paths to this point."""

    where: str
    loc: Loc

    def error(self, name: str, loc: Loc) -> CompilationError:
        return CompilationError(
            f"`{name}` may have no value here: it is assigned {self.where}",
            loc=loc,
            notes=[
                note_at(f"`{name}` is assigned", self.loc),
                f"assign `{name}` before that too, so that it has a value on every path",
            ],
        )


@dataclass(frozen=True, eq=False, slots=True)
class Conflict:
    """A name for which two paths to this point have values that cannot be merged."""

    first: Binding
    second: Binding

    def error(self, name: str, loc: Loc) -> CompilationError:
        a, b = self.first, self.second
        error = CompilationError(
            f"`{name}` is {describe(a.value)} on one path to here and {describe(b.value)} on "
            "another; it must be of one type on all paths",
            loc=loc,
            notes=[note_at(describe(x.value), x.loc) for x in (a, b)],
        )
        if a.loc == b.loc:
            error.notes.pop()
        return error


Entry = Binding | Partial | Conflict
Scope = dict[str, Entry]


def note_at(text: str, loc: Loc) -> str:
    """Return a note that names another location, with its source line."""
    line = linecache.getline(loc.file, loc.line).strip()
    return f"{text} at {loc}: {line}" if line else f"{text} at {loc}"


def undefined(name: str, candidates: Iterable[str], loc: Loc) -> CompilationError:
    """Return the error for a name that nothing assigns."""
    near = difflib.get_close_matches(name, [other for other in candidates if other != name], n=3)
    hint = f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
    return CompilationError(f"`{name}` is not defined{hint}", loc=loc)


def assigned_later(name: str, first: Loc, loc: Loc) -> CompilationError:
    """Return the error for a local name that is read before it is assigned."""
    return CompilationError(
        f"`{name}` has no value yet: it is assigned only later",
        loc=loc,
        notes=[
            note_at(f"`{name}` is assigned", first),
            f"a name that a function assigns is local to it; no global `{name}` is looked up",
        ],
    )
