"""What is known at one point of the compilation of one function.

`Lowering` holds the insertion point, the names, and how control got here. The rules for each kind
of expression and statement are functions of a `Lowering` and a node, found in two tables.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from tile.errors import CompilationError, Loc, TileError, TypeRuleError
from tile.frontend.scope import Binding, Loop, Scope
from tile.frontend.source import DeviceFunction
from tile.frontend.values import name_leaves
from tile.ir.builder import Builder
from tile.ir.core import Block, Module, Value
from tile.ir.nesting import too_deep
from tile.language.known import bounded

Flag = bool | Value
Tail = frozenset[str] | None
Expression = Callable[["Lowering", Any], object]
Statement = Callable[["Lowering", Any], None]


@dataclass(frozen=True, slots=True)
class Flow:
    """Which exits the path to here may have taken, each known now or an i1 value.

    `exited` is the widest: the rest of the statements is not to run. `left` says that the innermost
    loop is over too (`break` or `return`) and `returned` that the function is; then `result` is its
    result.
    """

    exited: Flag = False
    left: Flag = False
    returned: Flag = False
    result: Binding | None = None

    @property
    def gone(self) -> bool:
        """Whether nothing after this point runs."""
        return self.exited is True


FLOWING = Flow()


@dataclass(slots=True)
class Path:
    """What one branch came to: its operations, and names and flow at its end."""

    block: Block
    scope: Scope
    flow: Flow


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A device function compiled for some arguments: its name in the module, and its result.

    The runtime values in `result` show only their types. A function that does nothing has no name.
    """

    name: str
    result: object


class Session(Protocol):
    """What the functions of one module share while they are compiled."""

    module: Module
    steps: bool  # whether functions get marks for the debugger

    def specialise(
        self, function: DeviceFunction, arguments: Mapping[str, object], call: Loc
    ) -> Specialisation:
        """The function compiled for these arguments, now or before."""

    def unmarked(self) -> AbstractContextManager[None]:
        """Compile functions without marks, for who runs them on elements of tiles."""


@dataclass(frozen=True)
class Rules:
    """How each kind of node is compiled."""

    expressions: Mapping[type[ast.expr], Expression]
    statements: Mapping[type[ast.stmt], Statement]
    body: Callable[[Lowering, Sequence[ast.stmt], Tail], None]


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
        self.looked_at: set[Binding] = set()
        self.flags: list[Value] = []  # made in case that something must be guarded by them

    def loc(self, node: ast.stmt | ast.expr | ast.keyword) -> Loc:
        return self.source.loc(node, self.function.name)

    def at(self, node: ast.stmt | ast.expr) -> Loc:
        """Give the place of `node` to the operations that follow."""
        self.build.loc = loc = self.loc(node)
        return loc

    @contextmanager
    def placing(self, node: ast.stmt | ast.expr) -> Iterator[None]:
        """Give errors raised inside that have no place yet that of `node`.

        Where Python's stack was full and there is no room even to say so, `RecursionError` is
        raised again, and the node around is asked: so the innermost one is named for which there
        is.
        """
        try:
            yield
        except TileError as error:
            raise self.placed(error, node) from error.__cause__
        except RecursionError:
            raise too_deep(self.loc(node)) from None

    def expression(self, node: ast.expr) -> object:
        """Compile an expression. Errors without a place get that of the innermost expression."""
        with self.placing(node):
            rule = self.rules.expressions.get(type(node))
            if rule is None:
                raise CompilationError(f"{type(node).__name__} is not supported in a kernel")
            return bounded(rule(self, node))

    def statement(self, node: ast.stmt) -> None:
        """Compile any statement but `if`, with errors as `expression` has them."""
        with self.placing(node):
            rule = self.rules.statements.get(type(node))
            if rule is None:
                raise CompilationError(f"{type(node).__name__} is not supported in a kernel")
            rule(self, node)

    def placed(self, error: TileError, node: ast.stmt | ast.expr) -> TileError:
        """The error with a place; a type rule's as an error of the kernel."""
        loc = error.loc or self.loc(node)
        if isinstance(error, TypeRuleError):
            return CompilationError(error.message, loc=loc, notes=error.notes)
        error.loc = loc
        return error

    def body(self, statements: Sequence[ast.stmt], tail: Tail) -> None:
        """Compile statements; `tail` names what is of use after the last (None: everything)."""
        self.rules.body(self, statements, tail)

    def wanted(self, names: Tail) -> Tail:
        """The names that are of use behind a body, these and all that a debugger looks at."""
        return None if self.session.steps else names

    def bind(self, name: str, value: object, loc: Loc) -> None:
        """Let a name stand for a value from here on."""
        name_leaves(value, name)
        self.scope[name] = Binding(value, loc)

    def branch(self, work: Callable[[], None], block: Block | None = None) -> Path:
        """Do `work` in a block, by default a new one, with names and flow of its own."""
        path = Path(block or Block(), dict(self.scope), FLOWING)
        self.extend(path, work)
        return path

    def extend(self, path: Path, work: Callable[[], None]) -> None:
        """Go on with `work` at the end of a path."""
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
