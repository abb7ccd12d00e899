"""A Triton-C file under translation: its functions, names and scopes."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from lark import Token, Tree

from tile.errors import CompilationError
from tile.frontend.python.debug_info import UNNAMED
from tile.frontend.triton_c.c_types import CType
from tile.frontend.triton_c.intrinsics import INTRINSICS
from tile.frontend.triton_c.nodes import Call, Dereference, Literal, Store, Subscript
from tile.frontend.triton_c.parser import Text
from tile.location import Loc
from tile.tracebacks import warn

N = TypeVar("N", bound=ast.AST)
EFFECTS = ("atomic_", "printf", "assert")  # beginnings of the names of intrinsics with effects


@dataclass(frozen=True)
class Parameter:
    """A declared parameter of a function."""

    name: str
    type: CType


@dataclass
class Function:
    """A function of the file. `uses` are the tunables and constant arrays that it needs."""

    name: str
    result: CType
    is_kernel: bool
    parameters: list[Parameter]
    tree: Tree[Token]
    loc: Loc
    node: ast.FunctionDef | None = None
    calls: frozenset[str] = frozenset()
    uses: tuple[str, ...] = ()


@dataclass
class Unit:
    """A translated file.

    tunables: their values, as expressions that the host evaluates.
    constants: the types of file-scope variables.
    statements: what the host runs when the file is loaded, in order.
    """

    source: Text
    tunables: dict[str, list[ast.expr]] = field(default_factory=dict)
    constants: dict[str, CType] = field(default_factory=dict)
    statements: list[ast.stmt] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)

    @property
    def arrays(self) -> list[str]:
        """The file-scope variables that are pointers: kernels take them as arguments."""
        return [name for name, ty in self.constants.items() if ty.pointers]

    def accesses_memory(self, name: str) -> bool:
        """Return True if a function or one that it calls loads, stores or prints."""
        function = self.functions[name]
        assert function.node is not None
        own = any(
            isinstance(node, Store | Dereference)
            or (isinstance(node, Subscript) and not isinstance(node.index[0], ast.Constant))
            or (isinstance(node, Call) and node.function.id.startswith(EFFECTS))
            for node in ast.walk(function.node)
        )
        return own or any(map(self.accesses_memory, function.calls))


@dataclass(frozen=True)
class Variable:
    """A declared name: its unique name in the AST, and its type."""

    unique: str
    type: CType
    loc: Loc


class Scopes:
    """The names that a function, or if it is None the host, can use at a point of the text."""

    def __init__(self, unit: Unit, host_names: Container[str], function: Function | None) -> None:
        self.unit = unit
        self.host_names = host_names
        self.function = function
        self.scopes: list[dict[str, Variable]] = [{}]
        self.predicates: list[ast.expr] = []
        self.extent: ast.expr | None = None  # of the tile that an initializer is for
        self.count = 0

    # -- locations and errors

    def loc(self, part: Tree[Token] | Token) -> Loc:
        """Return the location of a part of the text: its first line if it spans several."""
        meta: Any = part if isinstance(part, Token) else part.meta
        line, column = getattr(meta, "line", 1), getattr(meta, "column", 1)
        end = meta.end_column if getattr(meta, "end_line", line) == line else None
        if end is None:
            end = len(self.unit.source.lines[line - 1].rstrip()) + 1
        return self.unit.source.loc(line, column, end, self.function.name if self.function else "")

    def fail(self, part: Tree[Token] | Token, message: str, *notes: str) -> NoReturn:
        raise CompilationError(message, loc=self.loc(part), notes=list(notes))

    def place(self, node: N, part: Tree[Token] | Token) -> N:
        """Give a node the location of a part of the text; columns count bytes, as in `ast`."""
        meta: Any = part if isinstance(part, Token) else part.meta
        lines = self.unit.source.lines

        def offset(line: int, column: int) -> int:
            return len(lines[line - 1][: column - 1].encode())

        placed: Any = node
        placed.lineno, placed.end_lineno = meta.line, meta.end_line
        placed.col_offset = offset(meta.line, meta.column)
        placed.end_col_offset = offset(meta.end_line, meta.end_column)
        return node

    def hidden(self) -> str:
        """Return an unused name that no program can spell."""
        self.count += 1
        return f"{UNNAMED}{self.count}"

    # -- names

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a block scope."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def visible(self, name: str) -> Variable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def declare(self, token: Token, ty: CType) -> Variable:
        """Declare a variable in the innermost scope; warn if it hides another."""
        name, loc = str(token), self.loc(token)
        outer = self.visible(name)
        if name in self.scopes[-1] and outer is not None:
            self.fail(token, f"`{name}` is declared twice in this scope", f"first at {outer.loc}")
        hides = outer is not None or (
            self.function is not None
            and (name in self.unit.constants or name in self.unit.tunables)
        )
        if hides and self.function is not None:
            what = "a file-scope name" if outer is None else f"the `{name}` of {outer.loc}"
            warn(f"`{name}` hides {what}", loc)
            self.count += 1
        variable = Variable(f"{name}@{self.count}" if hides else name, ty, loc)
        self.scopes[-1][name] = variable
        return variable

    def variable(self, token: Token) -> Variable:
        """Return the variable that an assignment names. Raises for a constant or unknown name."""
        variable = self.visible(str(token))
        if variable is None:
            if self.at_file_scope(str(token)):
                self.fail(token, f"`{token}` is a constant here and cannot be assigned")
            self.undeclared(token)
        if "const" in variable.type.qualifiers and not variable.type.pointers:
            self.fail(token, f"`{token}` is const", f"it is declared at {variable.loc}")
        return variable

    def at_file_scope(self, name: str) -> bool:
        """Return True if a name exists at file scope, or the host gave it."""
        unit = self.unit
        return name in unit.tunables or name in unit.constants or name in self.host_names

    def is_constant(self, node: ast.expr) -> bool:
        """Return True for a positive literal, and for a tunable, a constant or a host value."""
        if isinstance(node, Literal):
            return node.value > 0
        return (
            isinstance(node, ast.Name)
            and self.visible(node.id) is None
            and self.at_file_scope(node.id)
        )

    def undeclared(self, token: Token) -> NoReturn:
        names = {*self.unit.tunables, *self.unit.constants, *self.unit.functions}
        names.update(INTRINSICS, *self.scopes)
        near = difflib.get_close_matches(str(token), names, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        notes = () if self.function else ("give host values when loading: load(path, N=64)",)
        self.fail(token, f"`{token}` is not declared{hint}", *notes)

    def text(self, tree: Tree[Token]) -> str:
        return self.unit.source.text[tree.meta.start_pos : tree.meta.end_pos]


def trees(tree: Tree[Token]) -> Iterator[Tree[Token]]:
    """Yield the children of a tree that are trees."""
    return (child for child in tree.children if isinstance(child, Tree))


def as_tree(part: Any) -> Tree[Token]:
    """Return a child that is a tree."""
    assert isinstance(part, Tree)
    return part


def name_of(tree: Tree[Token]) -> str | None:
    """Return the name that an expression consists of, None for any other expression."""
    return str(tree.children[0]) if tree.data == "name" else None
