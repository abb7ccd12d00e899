"""Find the `for` loops of C that count, as the loops of the IR do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from tile.frontend.triton_c.nodes import Assign, Binary, CountedLoop, Literal, Unary, at

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def counted(
    init: Sequence[ast.stmt],
    test: ast.expr,
    steps: Sequence[ast.stmt],
    body: list[ast.stmt],
    is_constant: Callable[[ast.expr], bool],
) -> CountedLoop | None:
    """Return a C `for` as a counted loop, or None if it is not known to be one.

    It declares a signed integer, compares it with a bound that the body does not change, and moves
    it towards the bound by constants and tunables, which are positive.
    """
    if len(init) != 1 or len(steps) != 1 or not isinstance(test, Binary):
        return None
    first, step = init[0], steps[0]
    if not isinstance(first, Assign) or not isinstance(step, Assign) or first.value is None:
        return None
    name, ty = first.target.id, first.type
    if (
        ty.pointers
        or ty.shape
        or ty.element is None
        or ty.element.is_floating()
        or not ty.element.signed
    ):
        return None
    op, bound = test.op, test.right
    if not _is_name(test.left, name):
        if not _is_name(test.right, name) or op not in MIRRORED:
            return None
        op, bound = MIRRORED[op], test.left
    stride, upwards = _stride(step, name, is_constant)
    if op not in ("<", "<=", ">", ">=") or stride is None or upwards != (op[0] == "<"):
        return None
    assigned = {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = {node.id for node in ast.walk(bound) if isinstance(node, ast.Name)}
    if name in assigned or assigned & read or name in read or not _is_plain(bound):
        return None
    offset = 0 if len(op) == 1 else (1 if upwards else -1)
    if not upwards:
        stride = at(Unary("-", stride), stride)
    return CountedLoop(first.target, bound, first.value, offset, stride, ty, body, [])


def _stride(
    step: Assign, name: str, is_constant: Callable[[ast.expr], bool]
) -> tuple[ast.expr | None, bool]:
    """Return the stride of `k = k + stride` or `k = k - stride`, and whether it is added."""
    value = step.value
    if step.target.id != name or not isinstance(value, Binary) or value.op not in ("+", "-"):
        return None, False
    if not _is_name(value.left, name) or not is_constant(value.right):
        return None, False
    return value.right, value.op == "+"


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_plain(node: ast.expr) -> bool:
    """Return True for integer arithmetic on names and literals, without memory accesses."""
    return all(
        isinstance(n, Literal | ast.Name | Unary | Binary | ast.expr_context)
        for n in ast.walk(node)
    ) and not any(isinstance(n, Literal) and isinstance(n.value, float) for n in ast.walk(node))
