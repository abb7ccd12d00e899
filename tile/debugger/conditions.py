"""Conditions of breakpoints, asked of all programs of a wave.

A condition over scalars (`i > 3 and program_id(0) == 2`) is computed for all programs at once. Any
other is an expression like those of `p`, computed for one program after the other.
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


class OneByOneError(Exception):
    """An expression that is not for all programs at once."""


class Condition:
    """A condition as the user wrote it. Raises `SyntaxError` for what is no expression."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tree = ast.parse(self.text, mode="eval").body
        self.code = compile(self.text, "<condition>", "eval")

    def __str__(self) -> str:
        return self.text

    def holds(self, frame: KernelFrame, own: Mapping[str, Any]) -> Array:
        """For which programs of the frame's wave it is true.

        Raises one of `FAILURES`; `MissingError`, where a name in it has no value here.
        """
        names = names_of(self.code)
        everywhere = {"np", "tl", "program_id", "num_programs", *own, *dir(builtins)}
        missing = sorted(names - everywhere - frame.variables.keys() - _attributes(self.tree))
        if missing:
            raise MissingError(f"name '{missing[0]}' is not defined")
        programs = len(frame.wave)
        try:
            truth = np.asarray(_Together(frame, own).value(self.tree), dtype=bool)
        except OneByOneError:
            return self.one_by_one(frame, names, own)
        return np.array(np.broadcast_to(truth, (programs,)))

    def one_by_one(self, frame: KernelFrame, names: set[str], own: Mapping[str, Any]) -> Array:
        """The same, by asking each program."""
        truths = []
        for row in frame.wave.rows:
            one = KernelFrame(frame.wave, int(row), frame.activation, frame.step, frame.instruction)
            value = eval(self.code, namespace(one, names, own))
            if isinstance(value, np.ndarray) and value.size != 1:
                raise ArgumentValueError(
                    f"`{self.text}` is a tile of shape {value.shape}; say when it holds: "
                    f"`({self.text}).any()` or `({self.text}).all()`"
                )
            truths.append(bool(value))
        return np.array(truths)


def _attributes(tree: ast.expr) -> set[str]:
    """Names that stand behind a dot, and parameters of functions inside."""
    behind = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return behind | stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


class _Together:
    """Evaluates an expression over scalars for all programs of a wave at once."""

    def __init__(self, frame: KernelFrame, own: Mapping[str, Any]) -> None:
        self.frame = frame
        self.own = own

    def value(self, node: ast.expr) -> Any:
        rule = _RULES.get(type(node))
        if rule is None:
            raise OneByOneError
        return rule(self, node)

    def name(self, node: ast.Name) -> Any:
        leaf = self.frame.variables.get(node.id)
        if not isinstance(leaf, Leaf):
            raise OneByOneError
        if leaf.variable.known is not None or leaf.variable.missing is not None:
            return self.frame.reader.value(leaf)
        ty = leaf.type
        if ty is None or ty.shape or ty.element.is_ptr():
            raise OneByOneError
        return self.frame.reader.among_all(leaf)

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def binary(self, node: ast.BinOp) -> Any:
        operate = _BINARY.get(type(node.op))
        if operate is None:
            raise OneByOneError
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
                raise OneByOneError
            links.append(_COMPARE[type(op)](a, b))
        return np.logical_and.reduce(np.broadcast_arrays(*links))

    def call(self, node: ast.Call) -> Any:
        """`program_id(axis)` or `num_programs(axis)`, with `tl.` or without."""
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else None
        name = function.id if isinstance(function, ast.Name) else name
        launch = self.frame.wave.launch
        axes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if node.keywords or len(node.args) != 1 or axes not in ([0], [1], [2]):
            raise OneByOneError
        axis = int(str(axes[0]))
        if name == "program_id":
            return launch.coordinate(self.frame.wave.rows, axis)
        if name == "num_programs":
            return launch.grid[axis]
        raise OneByOneError


_RULES: dict[type[ast.expr], Callable[[_Together, Any], Any]] = {
    ast.BinOp: _Together.binary,
    ast.BoolOp: _Together.logical,
    ast.Call: _Together.call,
    ast.Compare: _Together.compare,
    ast.Constant: _Together.constant,
    ast.Name: _Together.name,
    ast.UnaryOp: _Together.unary,
}
