"""Compilation rules of expressions, one per kind of AST node.

Conditions are compile-time booleans or i1 values. Loop options that have no effect are warned
about.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Mapping
from typing import Any

from tile.errors import CompilationError
from tile.frontend.python.aggregates import (
    operator_method,
)
from tile.frontend.python.attributes import attribute
from tile.frontend.python.branches import emit_if
from tile.frontend.python.calls import call, unpack_starred
from tile.frontend.python.global_names import lookup
from tile.frontend.python.lowering_context import (
    Binding,
    Expression,
    Flag,
    Lowering,
    Path,
    assigned_later,
    refused,
    undefined,
)
from tile.frontend.python.overloads import SUBSCRIPT, binary_method, call_method, unary_method
from tile.frontend.python.source import DeviceFunction
from tile.frontend.python.value_trees import MismatchError, Phis, describe, leaves, resolve, same
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import arith
from tile.ir.types import I1, I64, Pointer
from tile.language import operators, python_builtins
from tile.language.base.static_args import compile_time_bool, constant_value, failed, static_truth
from tile.language.base.tensor import Tensor
from tile.language.reductions import item_
from tile.location import Loc
from tile.tracebacks import warn


@functools.cache
def warn_unread(loc: Loc, names: tuple[str, ...], of: str) -> None:
    """Warn once, at the user's line, that options `of` a loop have no effect."""
    several = len(names) > 1
    warn(
        f"the option{'s' if several else ''} {', '.join(names)} of {of} "
        f"{'have' if several else 'has'} no effect; the loop's results are the same",
        loc,
    )


def truth(low: Lowering, node: ast.expr, statement: str) -> Flag:
    """Return the condition of an `if` or `while`.

    A compile-time value, or a scalar that is a constant in the IR, becomes a Python bool. Raises
    `CompilationError` for a tile, a descriptor and a pointer.
    """
    value = low.expression(node)
    if isinstance(value, python_builtins.condition):
        if compile_time_bool(value.disable_licm, "the disable_licm of tl.condition"):
            warn_unread(low.at(node), ("disable_licm",), "tl.condition")
        value = value.condition
    if isinstance(value, Tensor):
        number = constant_value(value)
        if number is None:
            return _runtime(low, node, value, statement)
        value = number
    with low.errors_at(node):
        return static_truth(value, f"the condition of `{statement}`")


def _runtime(low: Lowering, node: ast.expr, value: Tensor, statement: str) -> Flag:
    loc = low.at(node)
    if value.shape and value.numel == 1:
        value = item_.emit(low.build, value)
    if value.shape:
        raise CompilationError(
            f"`{statement}` takes one condition, and this is a whole tile of type {value.type}",
            loc=loc,
            notes=[
                "to choose element by element write tl.where(condition, a, b)",
                "to ask whether any element is true write tl.max(condition.to(tl.int32)) != 0",
            ],
        )
    if isinstance(value.type, Descriptor):
        raise CompilationError(
            f"`{statement}` takes a number as its condition, not a descriptor, {value.type}",
            loc=loc,
        )
    if isinstance(value.dtype, Pointer):
        if low.function.loose_annotations:  # as in Triton
            address = low.build(arith.bitcast, value.value, to=I64)
            return low.build(arith.cast, address, to=I1)
        raise CompilationError(
            f"`{statement}` takes a number as its condition, not the pointer {value.type}; to ask "
            "whether it is null write ptr.to(tl.int64) != 0",
            loc=loc,
        )
    if value.dtype == I1:
        return value.value
    return low.build(arith.cast, value.value, to=I1)


def _class_of(expression: str) -> type[ast.AST]:
    """Return the AST class of the operator in an expression."""
    node: Any = ast.parse(expression, mode="eval").body
    return type(node.ops[0] if isinstance(node, ast.Compare) else node.op)


SYMBOLS: Mapping[type[ast.AST], str] = {
    **{_class_of(f"a {symbol} b"): symbol for symbol in operators.PYTHON},
    **{_class_of(f"{symbol} a"): symbol for symbol in operators.PYTHON_UNARY},
}


def name(low: Lowering, node: ast.Name) -> object:
    """Return the value of a name: a local of the function, or a captured global or closure name."""
    entry = low.scope.get(node.id)
    if isinstance(entry, Binding):
        low.read_bindings.add(entry)
        return entry.value
    loc = low.loc(node)
    if entry is not None:
        raise entry.error(node.id, loc)
    local = low.source.assigned_in(low.source.node).get(node.id)
    if local is not None:
        raise assigned_later(node.id, low.loc(local), loc)
    exists, value = lookup(low.function, node.id)
    if not exists:
        raise undefined(node.id, [*low.scope, *low.function.fn.__globals__, *dir(builtins)], loc)
    return value


def constant(low: Lowering, node: ast.Constant) -> object:
    """Return the Python value of a literal: a number, a string, `None` or `...`."""
    if isinstance(node.value, bytes | complex):
        low.fail(node, f"{type(node.value).__name__} constants are not supported in a kernel")
    return node.value


def binary(low: Lowering, node: ast.BinOp) -> object:
    """Compile a binary operator; a chain `a + b + c + ...` iteratively, innermost first."""
    chain = [node]
    while isinstance(inner := chain[-1].left, ast.BinOp):
        chain.append(inner)
    result = low.expression(chain[-1].left)
    while chain:
        operation = chain.pop()
        with low.errors_at(operation):
            result = operate(low, operation, operation.op, result, low.expression(operation.right))
    return result


def operate(
    low: Lowering, node: ast.expr | ast.stmt, op: ast.operator, a: object, b: object
) -> object:
    """Emit `a op b` at the location of `node`."""
    overload = binary_method(op, a, b)
    if overload is not None:
        return call_method(low, node, *overload)
    low.at(node)
    return operators.binary(low.build, SYMBOLS[type(op)], a, b)


def unary(low: Lowering, node: ast.UnaryOp) -> object:
    """Compile a unary operator."""
    operand = low.expression(node.operand)
    method = unary_method(node.op, operand)
    if method is not None:
        return call_method(low, node, method)
    low.at(node)
    return operators.unary(low.build, SYMBOLS[type(node.op)], operand)


def compare(low: Lowering, node: ast.Compare) -> object:
    """Compile a comparison or a chain `a < b < c`, whose middle operand is evaluated once."""
    left = low.expression(node.left)
    result: object = True
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = low.expression(operand)
        overload = binary_method(op, left, right)
        low.at(node)
        holds = (
            compare_two(low, op, left, right)
            if overload is None
            else call_method(low, node, *overload)
        )
        result = operators.logical(low.build, "and", result, holds)
        if not isinstance(result, Tensor) and not static_truth(result, "a comparison"):
            break
        left = right
    return result


def compare_two(low: Lowering, op: ast.cmpop, a: object, b: object) -> object:
    """Emit one comparison of a chain."""
    if isinstance(op, ast.Is | ast.IsNot):
        return same(a, b) is isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        return contains(a, b) is isinstance(op, ast.In)
    return operators.compare(low.build, SYMBOLS[type(op)], a, b)


def contains(item: object, container: Any) -> bool:
    """Return `item in container` for compile-time values."""
    if leaves((item, container)):
        raise CompilationError(
            "`in` is for values known when the kernel is compiled; compare with `==`"
        )
    try:
        return bool(item in container)
    except Exception as error:  # noqa: BLE001 - the class of a constant defines this
        raise failed(f"{describe(item)} in {describe(container)}", error) from None


def logical(low: Lowering, node: ast.BoolOp) -> object:
    """Compile `and` and `or`; a compile-time operand decides whether the next is compiled."""
    op, stops = ("and", False) if isinstance(node.op, ast.And) else ("or", True)
    first, *others = node.values
    result = low.expression(first)
    for operand in others:
        if not isinstance(result, Tensor):
            if static_truth(result, f"an operand of `{op}`") is stops:
                return result
            result = low.expression(operand)
        else:
            right = low.expression(operand)
            low.at(node)
            result = operators.logical(low.build, op, result, right)
    return result


def choice(low: Lowering, node: ast.IfExp) -> object:
    """Compile `a if condition else b`; under a compile-time condition only the chosen side."""
    condition = truth(low, node.test, "if")
    if isinstance(condition, bool):
        return low.expression(node.body if condition else node.orelse)
    sides: list[object] = []

    def side(expression: ast.expr) -> Path:
        return low.branch(lambda: sides.append(low.expression(expression)))

    first, second = side(node.body), side(node.orelse)
    phis = Phis()
    try:
        value = phis.unify(*sides)
    except MismatchError:
        a, b = map(describe, sides)
        low.fail(
            node, f"this is {a} if the condition holds and {b} if not; both must be of one type"
        )
    values = emit_if(low, condition, first.block, second.block, phis, low.loc(node))
    return resolve(value, values)


def subscript(low: Lowering, node: ast.Subscript) -> object:
    """Compile `a[b]`."""
    owner = low.expression(node.value)
    if isinstance(owner, DeviceFunction):
        low.fail(node, f"a kernel launches no kernels; to call `{owner.name}`, leave the grid out")
    index = low.expression(node.slice)
    method = operator_method(owner, SUBSCRIPT)
    if method is not None:
        return call_method(low, node, method, index)
    low.at(node)
    return operators.subscript(low.build, owner, index)


def slice_(low: Lowering, node: ast.Slice) -> object:
    """Compile `a:b:c` in a subscript."""
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else low.expression(part) for part in parts))


def sequence(low: Lowering, node: ast.Tuple | ast.List) -> object:
    """Compile a tuple or list display; a list becomes a tuple, since kernels mutate nothing."""
    return tuple(unpack_starred(low, node.elts))


def text(low: Lowering, node: ast.JoinedStr) -> object:
    """Evaluate an f-string of compile-time values, as used in messages."""
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            parts.append(formatted(low, part))
        else:
            parts.append(str(low.expression(part)))
    return "".join(parts)


def formatted(low: Lowering, node: ast.FormattedValue) -> str:
    """Evaluate one `{value!r:format}` of an f-string."""
    value = low.expression(node.value)
    if leaves(value):
        low.fail(
            node.value,
            f"an f-string is evaluated when the kernel is compiled, and this is {describe(value)}, "
            f"known only when it runs; pass it to tl.device_print as an argument",
        )
    form = "" if node.format_spec is None else str(low.expression(node.format_spec))
    try:
        shown = CONVERSIONS[node.conversion](value) if node.conversion in CONVERSIONS else value
        return format(shown, form)
    except Exception as error:
        with low.errors_at(node.value):
            raise failed(f"{describe(value)} cannot be formatted as `{form}`", error) from error


CONVERSIONS: Mapping[int, Callable[[object], str]] = {
    ord("s"): str,
    ord("r"): repr,
    ord("a"): ascii,
}
COMPREHENSION = (
    "comprehensions of sets and dictionaries are not supported in a kernel; use a tuple, as in "
    "tuple(f(x) for x in xs)"
)

REFUSED: Mapping[type[ast.expr], str] = {
    ast.Await: "`await` is not supported in a kernel: each program runs from start to end",
    ast.Dict: "dictionaries are not supported in a kernel; use names, or a tuple",
    ast.Lambda: "`lambda` is not supported in a kernel; write a function with @tile.jit outside",
    ast.NamedExpr: "`:=` is not supported in a kernel; assign in a statement of its own before",
    ast.Set: "sets are not supported in a kernel; use a tuple",
    ast.Starred: "`*` is supported only among the arguments of a call and the items of a tuple",
    ast.Yield: "`yield` is not supported in a kernel; store results with tl.store",
    ast.YieldFrom: "`yield from` is not supported in a kernel; store results with tl.store",
    **dict.fromkeys((ast.DictComp, ast.SetComp), COMPREHENSION),
}
EXPRESSIONS: Mapping[type[ast.expr], Expression] = {
    ast.Attribute: attribute,
    ast.BinOp: binary,
    ast.BoolOp: logical,
    ast.Call: call,
    ast.Compare: compare,
    ast.Constant: constant,
    ast.IfExp: choice,
    ast.JoinedStr: text,
    ast.List: sequence,
    ast.Name: name,
    ast.Slice: slice_,
    ast.Subscript: subscript,
    ast.Tuple: sequence,
    ast.UnaryOp: unary,
    **{kind: refused(message) for kind, message in REFUSED.items()},
}
