"""Operators of aggregates: `a + b` calls the method `__add__` of `a`, or `__radd__` of `b`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tile.frontend.python.aggregates import Method, operator_method
from tile.frontend.python.calls import call_value
from tile.frontend.python.lowering_context import Lowering

BINARY: Mapping[type[ast.AST], tuple[str, str]] = {
    **{
        kind: (f"__{name}__", f"__r{name}__")
        for kind, name in (
            (ast.Add, "add"),
            (ast.Sub, "sub"),
            (ast.Mult, "mul"),
            (ast.MatMult, "matmul"),
            (ast.Div, "truediv"),
            (ast.FloorDiv, "floordiv"),
            (ast.Mod, "mod"),
            (ast.Pow, "pow"),
            (ast.LShift, "lshift"),
            (ast.RShift, "rshift"),
            (ast.BitAnd, "and"),
            (ast.BitOr, "or"),
            (ast.BitXor, "xor"),
        )
    },
    ast.Eq: ("__eq__", "__eq__"),
    ast.NotEq: ("__ne__", "__ne__"),
    ast.Lt: ("__lt__", "__gt__"),
    ast.Gt: ("__gt__", "__lt__"),
    ast.LtE: ("__le__", "__ge__"),
    ast.GtE: ("__ge__", "__le__"),
}
UNARY: Mapping[type[ast.AST], str] = {
    ast.USub: "__neg__",
    ast.UAdd: "__pos__",
    ast.Invert: "__invert__",
    ast.Not: "__not__",
}
SUBSCRIPT = "__getitem__"


def binary_method(op: ast.AST, a: object, b: object) -> tuple[Method, object] | None:
    """Return the method of `a op b` and its argument, or None if neither operand has one."""
    if type(op) not in BINARY:
        return None
    forward, reflected = BINARY[type(op)]
    for owner, name, other in ((a, forward, b), (b, reflected, a)):
        method = operator_method(owner, name)
        if method is not None:
            return method, other
    return None


def unary_method(op: ast.AST, operand: object) -> Method | None:
    """Return the method of `op operand`, or None if the operand has none."""
    return operator_method(operand, UNARY[type(op)])


def call_method(low: Lowering, node: ast.expr | ast.stmt, method: Method, *args: object) -> object:
    """Call the method of an operator, at the location of the operation."""
    low.at(node)
    return call_value(low, node, method, list(args), {})
