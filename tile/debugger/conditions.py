"""Conditions of breakpoints, evaluated for all programs of a batch.

A condition over scalars (`i > 3 and program_id(0) == 2`) is evaluated for all programs at once. Any
other is an expression like those of `p`, evaluated for one program after the other.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tile.backends.interp.values import Array
from tile.debugger.expressions import names_of, namespace
from tile.debugger.frames import KernelFrame
from tile.debugger.values import Leaf, MissingError
from tile.errors import ArgumentValueError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: np.logical_not,
}


class NotVectorizableError(Exception):
    """Raised for an expression that cannot be evaluated for all programs at once."""


class Condition:
    """A condition as the user wrote it. Raises `SyntaxError` for what is not an expression."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tree = ast.parse(self.text, mode="eval").body
        self.code = compile(self.text, "<condition>", "eval")

    def __str__(self) -> str:
        return self.text

    def holds(self, frame: KernelFrame, user_variables: Mapping[str, Any]) -> Array:
        """Return a bool for each program of the frame's batch: the condition is true for it.

        Raises one of `FAILURES`; `MissingError` if a name in it has no value here.
        """
        names = names_of(self.code)
        defined = {"np", "tl", "program_id", "num_programs", *user_variables, *dir(builtins)}
        missing = sorted(names - defined - frame.variables.keys() - _attributes(self.tree))
        if missing:
            raise MissingError(f"name '{missing[0]}' is not defined")
        programs = len(frame.batch)
        try:
            truth = np.asarray(_BatchEvaluator(frame, user_variables).value(self.tree), dtype=bool)
        except NotVectorizableError:
            return self.one_by_one(frame, names, user_variables)
        return np.array(np.broadcast_to(truth, (programs,)))

    def one_by_one(
        self, frame: KernelFrame, names: set[str], user_variables: Mapping[str, Any]
    ) -> Array:
        """Evaluate the condition for each program by itself."""
        truths = []
        for row in frame.batch.rows:
            one = KernelFrame(
                frame.batch, int(row), frame.activation, frame.step, frame.instruction
            )
            value = eval(self.code, namespace(one, names, user_variables))
            if isinstance(value, np.ndarray) and value.size != 1:
                raise ArgumentValueError(
                    f"`{self.text}` is a tile of shape {value.shape}; say when it holds: "
                    f"`({self.text}).any()` or `({self.text}).all()`"
                )
            truths.append(bool(value))
        return np.array(truths)


def _attributes(tree: ast.expr) -> set[str]:
    """Return names after a dot, names that are assigned, and parameters of functions inside."""
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return attributes | stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


class _BatchEvaluator:
    """Evaluates an expression over scalars for all programs of a batch at once."""

    def __init__(self, frame: KernelFrame, user_variables: Mapping[str, Any]) -> None:
        self.frame = frame
        self.user_variables = user_variables

    def value(self, node: ast.expr) -> Any:
        rule = _RULES.get(type(node))
        if rule is None:
            raise NotVectorizableError
        return rule(self, node)

    def name(self, node: ast.Name) -> Any:
        leaf = self.frame.variables.get(node.id)
        if not isinstance(leaf, Leaf):
            raise NotVectorizableError
        if leaf.variable.known is not None or leaf.variable.missing is not None:
            return self.frame.reader.value(leaf)
        ty = leaf.type
        if ty is None or ty.shape or ty.element.is_ptr():
            raise NotVectorizableError
        return self.frame.reader.among_all(leaf)

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def binary(self, node: ast.BinOp) -> Any:
        operate = _BINARY.get(type(node.op))
        if operate is None:
            raise NotVectorizableError
        return operate(self.value(node.left), self.value(node.right))

    def unary(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand))

    def logical(self, node: ast.BoolOp) -> Any:
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return join.reduce(np.broadcast_arrays(*map(self.value, node.values)))

    def compare(self, node: ast.Compare) -> Any:
        values = [self.value(operand) for operand in (node.left, *node.comparators)]
        links = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            if type(op) not in _COMPARE:
                raise NotVectorizableError
            links.append(_COMPARE[type(op)](a, b))
        return np.logical_and.reduce(np.broadcast_arrays(*links))

    def call(self, node: ast.Call) -> Any:
        """Evaluate `program_id(axis)` or `num_programs(axis)`, with `tl.` or without."""
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else None
        name = function.id if isinstance(function, ast.Name) else name
        launch = self.frame.batch.launch
        axes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if node.keywords or len(node.args) != 1 or axes not in ([0], [1], [2]):
            raise NotVectorizableError
        axis = int(str(axes[0]))
        if name == "program_id":
            return launch.coordinate(self.frame.batch.rows, axis)
        if name == "num_programs":
            return launch.grid[axis]
        raise NotVectorizableError


_RULES: dict[type[ast.expr], Callable[[_BatchEvaluator, Any], Any]] = {
    ast.BinOp: _BatchEvaluator.binary,
    ast.BoolOp: _BatchEvaluator.logical,
    ast.Call: _BatchEvaluator.call,
    ast.Compare: _BatchEvaluator.compare,
    ast.Constant: _BatchEvaluator.constant,
    ast.Name: _BatchEvaluator.name,
    ast.UnaryOp: _BatchEvaluator.unary,
}
