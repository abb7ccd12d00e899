"""AST nodes for constructs of C that Python lacks.

Nodes derive from those of `ast`, so that `tile.frontend.python` finds the names that they read and
assign. A `predicates` field holds the conditions under which a memory access or an assignment takes
place, element by element; they are all to hold.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from tile.frontend.triton_c.c_types import CType
from tile.ir.types import Scalar

SLICED = "a tile cannot be sliced: each index is `:` or `newaxis`, and a pointer takes one index"
ALL, NEWAXIS = ":", "newaxis"  # subscripts that are not expressions, as values of `ast.Constant`

T = TypeVar("T", bound=type)


@dataclass_transform(eq_default=False)
def node(cls: T) -> T:
    """Make a class of nodes a data class whose fields are those of the node."""
    made: Any = dataclass(eq=False)(cls)
    made._fields = tuple(field.name for field in fields(made))
    return cls


@node
class Literal(ast.expr):
    """A number; one without a type is an `int`, or a `long` if it does not fit."""

    value: int | float | bool
    type: Scalar | None


@node
class Unary(ast.expr):
    """One of `+ - ~ !`."""

    op: str
    operand: ast.expr


@node
class Binary(ast.expr):
    """An arithmetic, bitwise or comparison operator."""

    op: str
    left: ast.expr
    right: ast.expr


@node
class Logical(ast.expr):
    """`&&` or `||`; memory accesses on the right take place where the left does not decide."""

    op: str
    left: ast.expr
    right: ast.expr
    hidden: str


@node
class Conditional(ast.expr):
    """`test ? body : orelse`; `hidden` is the name of the test's value in predicates."""

    test: ast.expr
    body: ast.expr
    orelse: ast.expr
    hidden: str


@node
class Range(ast.expr):
    """`first ... last`: the integers from `first` up to but not including `last`."""

    first: ast.expr
    last: ast.expr


@node
class GlobalRange(ast.expr):
    """`get_global_range[extent](axis)`: this program's range of indices along an axis."""

    extent: ast.expr
    axis: ast.expr


@node
class Dereference(ast.expr):
    """`*pointer` as a value."""

    pointer: ast.expr
    predicates: list[ast.expr]


@node
class Subscript(ast.expr):
    """`value[index, ...]`: new axes of a tile, or the element of a pointer."""

    value: ast.expr
    index: list[ast.expr]
    predicates: list[ast.expr]


@node
class Call(ast.expr):
    """A call of a function of the file, or of an intrinsic."""

    function: ast.Name
    arguments: list[ast.expr]
    predicates: list[ast.expr]


@node
class Cast(ast.expr):
    """`(type) operand`."""

    type: CType
    operand: ast.expr


@node
class Test(ast.expr):
    """The condition of a statement, which is one for the whole program."""

    operand: ast.expr
    statement: str


@node
class Assign(ast.stmt):
    """A declaration or assignment of a variable of type `type`; `value` is None without one."""

    target: ast.Name
    type: CType
    value: ast.expr | None
    predicates: list[ast.expr]


@node
class Store(ast.stmt):
    """`*pointer = value`."""

    pointer: ast.expr
    value: ast.expr
    predicates: list[ast.expr]


@node
class For(ast.While):
    """A `for` that is no `CountedLoop`: a `while` whose `step` also follows a `continue`."""

    test: ast.expr
    body: list[ast.stmt]
    orelse: list[ast.stmt]
    step: list[ast.stmt]


@node
class CountedLoop(ast.For):
    """`for (int k = lower; k < upper; k += step)` whose body leaves `k` and `upper` alone.

    `offset` is 1 or -1 for a bound that is included, else 0.
    """

    target: ast.Name
    iter: ast.expr
    lower: ast.expr
    offset: int
    step: ast.expr
    type: CType
    body: list[ast.stmt]
    orelse: list[ast.stmt]


def at(node: Any, of: ast.AST) -> Any:
    """Return a node with the location of another."""
    return ast.copy_location(node, of)
