"""Run the statements outside functions on the host, when a file is loaded.

They compute the constants and constant arrays of kernels from values that the host gives. Integers
are Python's; an array element wraps as its type does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tile.errors import CompilationError
from tile.frontend.triton_c.c_types import CType, truncated
from tile.frontend.triton_c.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Dereference,
    For,
    Literal,
    Logical,
    Store,
    Subscript,
    Test,
    Unary,
)
from tile.frontend.triton_c.parser import Text
from tile.frontend.triton_c.unit import Unit
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import Scalar
from tile.language.operators import COMPARISONS, constant_binary
from tile.location import Loc
from tile.short_repr import short_repr

MOST_STEPS = 100_000_000  # statements; a loop that runs longer is taken for endless


class _LeaveError(Exception):
    """A `break` or a `continue`."""


class _BreakError(_LeaveError):
    pass


class _ContinueError(_LeaveError):
    pass


def run(unit: Unit, values: Mapping[str, Any]) -> dict[str, Any]:
    """Run a file's statements; return the values of its file-scope variables and of the host.

    Raises `CompilationError` with the line of a statement that fails.
    """
    host = Host(unit.source, dict(values))
    for statement in unit.statements:
        host.statement(statement)
    return host.values


def tunable_values(unit: Unit, values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the values of each tunable: those of the file, or the one that the host gave.

    Raises `CompilationError` if one is not an integer.
    """
    host = Host(unit.source, dict(values))
    return {
        name: (int(values[name]),) if name in values else tuple(map(host.integer, nodes))
        for name, nodes in unit.tunables.items()
    }


class Host:
    """An evaluator of host statements; `values` are the variables."""

    def __init__(self, source: Text, values: dict[str, Any]) -> None:
        self.source = source
        self.values = values
        self.steps = 0

    def fail(self, node: ast.AST, message: str) -> CompilationError:
        line = getattr(node, "lineno", 1)
        text = self.source.lines[line - 1].encode()
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        first, last = (len(text[:column].decode(errors="ignore")) for column in (start, end))
        if getattr(node, "end_lineno", line) != line:
            last = len(text.decode().rstrip())
        return CompilationError(message, loc=Loc(self.source.file, line, first, last))

    # -- statements

    def statement(self, node: ast.stmt) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise self.fail(
                node, f"the host ran {MOST_STEPS} statements here; is the loop endless?"
            )
        STATEMENTS[type(node)](self, node)

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def assign(self, node: Assign) -> None:
        value = 0 if node.value is None else self.expression(node.value)
        if isinstance(value, _Allocation):
            if node.type.pointers != 1 or not isinstance(node.type.element, Scalar):
                raise self.fail(node, "`alloc_const` initializes a pointer to a scalar type")
            value = self.allocated(node, value.count, numpy_dtype(node.type.element))
        elif not node.type.pointers:
            value = self.converted(node, value, node.type)
        elif node.value is not None and not isinstance(value, np.ndarray):
            raise self.fail(node, f"{short_repr(value)} does not convert to {node.type}")
        self.values[node.target.id] = value

    def allocated(self, node: ast.AST, count: int, dtype: np.dtype[Any]) -> Any:
        try:
            return np.zeros(count, dtype)
        except (ValueError, MemoryError) as error:
            raise self.fail(node, f"`alloc_const` of {count} elements: {error}") from None

    def converted(self, node: ast.AST, value: Any, ty: CType) -> int | float | bool:
        assert isinstance(ty.element, Scalar)
        number = self.checked(node, value)
        if ty.element.is_bool():
            return bool(number)
        return float(number) if ty.element.is_floating() else self.truncated(node, number)

    def store(self, node: Store) -> None:
        array, index = self.element(node.pointer)
        value = self.number(node.value)
        if array.dtype.kind in "iu":
            value = np.uint64(self.truncated(node.value, value) % (1 << 64))
        array[index] = np.array(value).astype(array.dtype)

    def if_(self, node: ast.If) -> None:
        self.block(node.body if self.number(node.test) else node.orelse)

    def while_(self, node: ast.While) -> None:
        step: Sequence[ast.stmt] = getattr(node, "step", ())
        while self.number(node.test):
            try:
                self.block(node.body)
            except _BreakError:
                break
            except _ContinueError:
                pass
            self.block(step)
            self.steps += 1

    def leave(self, node: ast.stmt) -> None:
        raise _BreakError if isinstance(node, ast.Break) else _ContinueError

    # -- expressions

    def expression(self, node: ast.expr) -> Any:
        rule = EXPRESSIONS.get(type(node))
        if rule is None:
            raise self.fail(node, "the host does not compute this: tiles are for kernels")
        return rule(self, node)

    def number(self, node: ast.expr) -> Any:
        """Return the value of an expression that is a number."""
        return self.checked(node, self.expression(node))

    def checked(self, node: ast.AST, value: Any) -> Any:
        """Return a value; raise `CompilationError` if it is not a number."""
        if isinstance(value, bool | int | float | np.generic):
            return value
        named = "an array" if isinstance(value, np.ndarray) else short_repr(value)
        raise self.fail(node, f"a number is needed here, not {named}")

    def truncated(self, node: ast.AST, value: Any) -> int:
        """Return a number without its fraction."""
        try:
            return int(value)
        except (OverflowError, ValueError):  # infinities and NaN
            raise self.fail(node, f"{value} does not convert to an integer") from None

    def integer(self, node: ast.expr) -> int:
        value = self.expression(node)
        if not isinstance(value, int | np.integer):
            raise self.fail(node, f"an integer is needed here, not {short_repr(value)}")
        return int(value)

    def name(self, node: ast.Name) -> Any:
        try:
            return self.values[node.id]
        except KeyError:
            raise self.fail(node, f"`{node.id}` has no value when the file is loaded") from None

    def unary(self, node: Unary) -> Any:
        value = self.integer(node.operand) if node.op == "~" else self.number(node.operand)
        operations: Mapping[str, Callable[[Any], Any]] = {
            "+": lambda x: +x,
            "-": lambda x: -x,
            "~": lambda x: ~int(x),
            "!": lambda x: not x,
        }
        return operations[node.op](value)

    def binary(self, node: Binary) -> Any:
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            raise self.fail(node, "the host does no arithmetic on pointers; write p[i]")
        left, right = self.checked(node.left, left), self.checked(node.right, right)
        if node.op in ("/", "%") and not right:
            raise self.fail(node, "division by zero")
        whole = isinstance(left, int) and isinstance(right, int)
        if whole and node.op in ("/", "%"):
            return truncated(node.op, left, right)
        try:
            value = constant_binary(node.op, left, right)
        except CompilationError as error:
            raise self.fail(node, error.message) from None
        return value if node.op in COMPARISONS else value + 0

    def logical(self, node: Logical) -> bool:
        left = bool(self.number(node.left))
        return left if left is (node.op == "||") else bool(self.number(node.right))

    def conditional(self, node: Conditional) -> Any:
        return self.expression(node.body if self.number(node.test) else node.orelse)

    def call(self, node: Call) -> Any:
        if node.function.id != "alloc_const":
            raise self.fail(node, f"the host cannot call `{node.function.id}`; kernels can")
        return _Allocation(self.integer(node.arguments[0]))

    def cast(self, node: Cast) -> Any:
        return self.converted(node, self.expression(node.operand), node.type)

    def subscript(self, node: Subscript) -> Any:
        array, index = self.element(Binary("+", node.value, node.index[0]), of=node)
        return array[index].item()

    def dereference(self, node: Dereference) -> Any:
        array, index = self.element(node.pointer)
        return array[index].item()

    def element(self, pointer: ast.expr, of: ast.expr | None = None) -> tuple[Any, int]:
        """Return the array and the index that `array + index` or `array` names."""
        of = of or pointer
        base, index = pointer, 0
        if isinstance(pointer, Binary) and pointer.op == "+":
            base, index = pointer.left, self.integer(pointer.right)
        array = self.expression(base)
        if not isinstance(array, np.ndarray):
            array = np.asarray(array)
        if array.ndim != 1:
            raise self.fail(of, "this is not an array of one axis")
        if not 0 <= index < len(array):
            raise self.fail(of, f"index {index} is outside the array of {len(array)} elements")
        return array, index


class _Allocation:
    """The value of `alloc_const type[count]`, until the declaration's type is known."""

    def __init__(self, count: int) -> None:
        self.count = count


STATEMENTS: Mapping[type[ast.stmt], Callable[[Host, Any], None]] = {
    Assign: Host.assign,
    Store: Host.store,
    For: Host.while_,
    ast.While: Host.while_,
    ast.If: Host.if_,
    ast.Pass: lambda host, node: None,
    ast.Break: Host.leave,
    ast.Continue: Host.leave,
}
EXPRESSIONS: Mapping[type[ast.expr], Callable[[Host, Any], Any]] = {
    ast.Constant: lambda host, node: node.value,
    ast.Name: Host.name,
    Literal: lambda host, node: node.value,
    Test: lambda host, node: host.expression(node.operand),
    Unary: Host.unary,
    Binary: Host.binary,
    Logical: Host.logical,
    Conditional: Host.conditional,
    Call: Host.call,
    Cast: Host.cast,
    Subscript: Host.subscript,
    Dereference: Host.dereference,
}
