"""The state of the compilation of one function.

`Lowering` holds the insertion point, the scope, and the early exits taken so far. The rules for
each kind of expression and statement are functions of a `Lowering` and a node, in two tables.

A scope binds names. A name on which paths disagree is bound to the error that its next use raises.
"""

from __future__ import annotations

import ast
import difflib
import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from tile.errors import CompilationError, TileError, TypeRuleError, UnsupportedSyntaxError
from tile.frontend.python.source import DeviceFunction
from tile.frontend.python.value_trees import describe, name_leaves
from tile.ir.builder import Builder
from tile.ir.compilation_context import nesting_error
from tile.ir.core import Block, Value
from tile.ir.module import Module
from tile.language.base.static_args import bounded
from tile.location import Loc


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


Flag = bool | Value
LiveOut = frozenset[str] | None
Expression = Callable[["Lowering", Any], object]
Statement = Callable[["Lowering", Any], None]


def refused(message: str) -> Callable[[Lowering, Any], NoReturn]:
    """Return the rule for an expression or statement that is not part of the language."""

    def rule(low: Lowering, node: ast.expr | ast.stmt) -> NoReturn:
        raise UnsupportedSyntaxError(message, loc=low.loc(node))

    return rule


@dataclass(frozen=True, slots=True)
class Flow:
    """The early exits that the path to this point may have taken: compile-time bools or i1 values.

    exited: any exit was taken, so the remaining statements of the block do not run.
    left: the innermost loop was left too, by `break` or `return`.
    returned: the function has returned, with `result`.
    """

    exited: Flag = False
    left: Flag = False
    returned: Flag = False
    result: Binding | None = None

    @property
    def unreachable(self) -> bool:
        """True if nothing after this point runs."""
        return self.exited is True


FLOWING = Flow()


@dataclass(slots=True)
class Path:
    """One compiled branch: its operations, and the scope and flow at its end."""

    block: Block
    scope: Scope
    flow: Flow


@dataclass(frozen=True, slots=True)
class Specialization:
    """A device function compiled for some arguments: its name in the module, and its result.

    Runtime values in `result` are patterns: only their types matter. A function that does nothing
    at run time is not in the module, and its name is empty.
    """

    name: str
    result: object


class Session(Protocol):
    """The state that the functions of one module share while they are compiled."""

    module: Module
    steps: bool  # True if functions get debug steps

    def specialize(
        self, function: DeviceFunction, arguments: Mapping[str, object], call: Loc
    ) -> Specialization:
        """Return the specialization of a function for these arguments; compile it if it is new."""

    def without_steps(self) -> AbstractContextManager[None]:
        """Compile functions without debug steps, for callbacks that run on elements of tiles."""


@dataclass(frozen=True)
class Rules:
    """The compilation rules, by kind of AST node."""

    expressions: Mapping[type[ast.expr], Expression]
    statements: Mapping[type[ast.stmt], Statement]
    body: Callable[[Lowering, Sequence[ast.stmt], LiveOut], None]


class Lowering:
    """The compilation of one function for one set of argument types."""

    def __init__(
        self,
        function: DeviceFunction,
        session: Session,
        rules: Rules,
        build: Builder,
        scope: Scope,
        *,
        kernel: bool,
    ) -> None:
        self.function = function
        self.source = function.source
        self.session = session
        self.rules = rules
        self.build = build
        self.scope = scope
        self.kernel = kernel
        self.flow = FLOWING
        self.loop: Loop | None = None
        self.read_bindings: set[Binding] = set()
        self.flags: list[Value] = []  # negated conditions, erased at the end if unused

    def loc(self, node: ast.stmt | ast.expr | ast.keyword) -> Loc:
        return self.source.loc(node, self.function.name)

    def at(self, node: ast.stmt | ast.expr) -> Loc:
        """Set the location of `node` for the operations that follow."""
        self.build.loc = loc = self.loc(node)
        return loc

    def errors_at(self, node: ast.stmt | ast.expr) -> AbstractContextManager[None]:
        """Give errors raised inside without a location the location of `node`."""
        return _ErrorsAt(self, node)

    def expression(self, node: ast.expr) -> object:
        """Compile an expression; errors without a location get that of the innermost expression."""
        with self.errors_at(node):
            rule = self.rules.expressions.get(type(node))
            if rule is None:
                raise UnsupportedSyntaxError(f"{type(node).__name__} is not supported in a kernel")
            return bounded(rule(self, node))

    def statement(self, node: ast.stmt) -> None:
        """Compile any statement except `if`; errors get a location as in `expression`."""
        with self.errors_at(node):
            rule = self.rules.statements.get(type(node))
            if rule is None:
                raise UnsupportedSyntaxError(f"{type(node).__name__} is not supported in a kernel")
            rule(self, node)

    def with_location(self, error: TileError, node: ast.stmt | ast.expr) -> TileError:
        """Return the error with a location; a `TypeRuleError` becomes a `CompilationError`."""
        loc = error.loc or self.loc(node)
        if isinstance(error, TypeRuleError):
            return CompilationError(error.message, loc=loc, notes=error.notes)
        error.loc = loc
        return error

    def body(self, statements: Sequence[ast.stmt], live_out: LiveOut) -> None:
        """Compile statements; `live_out` are the names live after the last one (None: all)."""
        self.rules.body(self, statements, live_out)

    def live_names(self, names: LiveOut) -> LiveOut:
        """Return the names live after a body: `names`, or all of them for a debugger."""
        return None if self.session.steps else names

    def bind(self, name: str, value: object, loc: Loc) -> None:
        """Bind a name to a value from this point on."""
        name_leaves(value, name)
        self.scope[name] = Binding(value, loc)

    def branch(self, work: Callable[[], None], block: Block | None = None) -> Path:
        """Run `work` in a block, by default a new one, with its own scope and flow."""
        path = Path(block or Block(), dict(self.scope), FLOWING)
        self.extend(path, work)
        return path

    def extend(self, path: Path, work: Callable[[], None]) -> None:
        """Run `work` at the end of a path."""
        outer = self.scope, self.flow
        self.scope, self.flow = path.scope, path.flow
        try:
            with self.build.into(path.block):
                work()
            path.scope, path.flow = self.scope, self.flow
        finally:
            self.scope, self.flow = outer

    def fail(
        self, node: ast.stmt | ast.expr | ast.keyword, message: str, notes: Sequence[str] = ()
    ) -> NoReturn:
        raise CompilationError(message, loc=self.loc(node), notes=notes)


class _ErrorsAt(AbstractContextManager[None]):
    """A class, since every expression enters one, and a generator takes longer.

    On stack overflow, creating the located error may overflow again. That `RecursionError`
    propagates to the enclosing node, so the error names the innermost node with enough stack.
    """

    __slots__ = ("low", "node")

    def __init__(self, low: Lowering, node: ast.stmt | ast.expr) -> None:
        self.low = low
        self.node = node

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, TileError):
            raise self.low.with_location(error, self.node) from error.__cause__
        if isinstance(error, RecursionError):
            raise nesting_error(self.low.loc(self.node)) from None
