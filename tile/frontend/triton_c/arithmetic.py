"""Operators of Triton-C on IR values, with the arithmetic conversions of C."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tile.errors import CompilationError
from tile.frontend.python.lowering_context import Binding, Lowering
from tile.frontend.triton_c.c_types import SPELLINGS, CType, common, promoted, truncated
from tile.frontend.triton_c.nodes import (
    Binary,
    Conditional,
    Literal,
    Logical,
    Unary,
)
from tile.ir.types import F64, I1, I32, I64, U64, Pointer, Scalar
from tile.language import operators, selection
from tile.language.base import promotion
from tile.language.base.static_args import constant_value
from tile.language.base.tensor import Tensor

SHIFTS = ("<<", ">>")
BITWISE = ("&", "|", "^")


# -- types and conversions


def describe(x: object) -> str:
    """Return the text of a value's type for messages, in C's words."""
    if isinstance(x, Tensor):
        extents = ", ".join(map(str, x.shape))
        return _spelled(x.dtype) + (f"[{extents}]" if extents else "")
    return SPELLINGS[type_of(x)] if isinstance(x, int | float) else type(x).__name__


def _spelled(dtype: Any) -> str:
    return f"{_spelled(dtype.pointee)}*" if isinstance(dtype, Pointer) else SPELLINGS[dtype]


def type_of(x: Any) -> Scalar:
    """Return the element type of an operand; numbers are `bool`, `int`, `long` or wider."""
    if isinstance(x, Tensor):
        assert isinstance(x.dtype, Scalar)
        return x.dtype
    if isinstance(x, bool):
        return I1
    if isinstance(x, float):  # a value that the host gave
        return F64
    if not isinstance(x, int):
        raise CompilationError(f"this is not a number but {describe(x)}")
    return next(ty for ty in (I32, I64, U64) if x <= ty.max_value)


def convert(low: Lowering, x: Any, to: Scalar | Pointer) -> Tensor:
    """Return a value converted to an element type, as C's assignment does."""
    if isinstance(to, Pointer) or operators.is_pointer(x):
        if not isinstance(x, Tensor) or (x.dtype != to and to is not I1):
            raise CompilationError(
                f"{describe(x)} does not convert to {_spelled(to)} without a cast"
            )
        return promotion.convert(low.build, x, to)
    if isinstance(x, Tensor):
        return promotion.convert(low.build, x, to)
    if not isinstance(x, bool | int | float):
        raise CompilationError(f"{describe(x)} does not convert to {_spelled(to)}")
    return promotion.constant(low.build, x, to)


def extents(low: Lowering, ty: CType) -> tuple[int, ...]:
    """Return the shape of a declared tile."""
    return tuple(compile_time(low, extent, "an extent of a tile") for extent in ty.shape)


def compile_time(low: Lowering, node: ast.expr, what: str) -> int:
    """Return the value of an integer expression that is known when the kernel is compiled."""
    value = low.expression(node)
    number = constant_value(value) if isinstance(value, Tensor) else value
    if not isinstance(number, int):
        low.fail(
            node, f"{what} is a number known when the kernel is compiled, not {describe(value)}"
        )
    return int(number)


def to_declared(low: Lowering, value: Any, ty: CType, subject: str) -> Tensor:
    """Return a value converted to a declared type, and broadcast to its shape."""
    converted = convert(low, value, ty.dtype)
    shape = extents(low, ty)
    if converted.shape != shape and len(converted.shape) > len(shape):
        raise CompilationError(
            f"{subject} is of type {_with_shape(ty, shape)}, and this is {describe(value)}"
        )
    return promotion.convert_shape(low.build, converted, shape)


def _with_shape(ty: CType, shape: tuple[int, ...]) -> str:
    return _spelled(ty.dtype) + (str(list(shape)) if shape else "")


# -- expressions


def literal(low: Lowering, node: Literal) -> object:
    """A number without a type stays a Python `int`: `int` by C's rules, a constant for shapes."""
    if node.type is None:
        return node.value
    return promotion.constant(low.build, node.value, node.type)


def unary(low: Lowering, node: Unary) -> object:
    """Compile `+ - ~ !`."""
    operand: Any = low.expression(node.operand)
    low.at(node)
    if node.op == "!":
        return operators.unary(low.build, "not", operand)
    if operators.is_pointer(operand):
        raise CompilationError(f"`{node.op}` is not defined on {describe(operand)}")
    if isinstance(operand, Tensor):
        operand = convert(low, operand, promoted(type_of(operand)))
    elif isinstance(operand, bool):
        operand = int(operand)
    return operators.unary(low.build, node.op, operand)


def binary(low: Lowering, node: Binary) -> object:
    """Compile a chain of binary operators on the left, innermost first."""
    chain = [node]
    while isinstance(inner := chain[-1].left, Binary):
        chain.append(inner)
    result = low.expression(chain[-1].left)
    while chain:
        operation = chain.pop()
        with low.errors_at(operation):
            right = low.expression(operation.right)
            low.at(operation)
            result = operate(low, operation.op, result, right)
    return result


def operate(low: Lowering, op: str, a: Any, b: Any) -> object:
    """Emit `a op b` after C's arithmetic conversions."""
    if isinstance(a, int) and isinstance(b, int):
        return fold(op, a, b)
    if operators.is_pointer(a) or operators.is_pointer(b):
        return pointer_arithmetic(low, op, a, b)
    first, second = type_of(a), type_of(b)
    if op in SHIFTS:
        ty = promoted(first)
    elif first == second == I1 and op in (*BITWISE, "==", "!="):
        ty = I1  # as for `int`, whose other bits are zero
    else:
        ty = common(first, second)
    if ty.is_floating() and op in ("%", *SHIFTS, *BITWISE):
        raise CompilationError(f"`{op}` is not defined on {describe(a)} and {describe(b)}")
    x, y = convert(low, a, ty), convert(low, b, ty)
    if op in operators.COMPARISONS:
        return operators.compare(low.build, op, x, y)
    if op == "/" and not ty.is_floating():
        op = "//"
    return convert(low, operators.binary(low.build, op, x, y), ty)


def pointer_arithmetic(low: Lowering, op: str, a: Any, b: Any) -> object:
    """Emit `p + i`, `p - i`, `p - q` in elements, or a comparison of addresses."""
    if op in operators.COMPARISONS:
        return operators.compare(low.build, op, a, b)
    if op == "-" and operators.is_pointer(a) and operators.is_pointer(b) and a.dtype == b.dtype:
        first, second = (promotion.convert(low.build, p, I64) for p in (a, b))
        size = max(getattr(a.dtype.pointee, "bits", 64) // 8, 1)
        return operators.binary(
            low.build, "//", operators.binary(low.build, "-", first, second), size
        )
    return operators.binary(low.build, op, a, b)


def fold(op: str, a: int, b: int) -> int | bool:
    """Return `a op b` of two `int` constants; division truncates, as in C."""
    if op in ("/", "%"):
        if not b:
            raise CompilationError(f"{a} {op} {b} divides by zero")
        return truncated(op, a, b)
    value = operators.constant_binary(op, a, b)
    return value if op in operators.COMPARISONS else int(value)


def predicate(low: Lowering, nodes: Sequence[ast.expr]) -> Any:
    """Return the conjunction of predicates: an i1 value, or True if there is none."""
    result: Any = True
    for node in nodes:
        value = low.expression(node)
        result = operators.logical(low.build, "and", result, truth_of(low, value))
    return result


def truth_of(low: Lowering, value: Any) -> Any:
    """Return a value as a predicate: a `bool`, or an i1 value."""
    if isinstance(value, Tensor):
        return operators.truth(low.build, value, "a predicate")
    if not isinstance(value, bool | int | float):
        raise CompilationError(f"this is not a number but {describe(value)}")
    return bool(value)


@contextmanager
def hidden(low: Lowering, name: str, value: object, node: ast.expr) -> Iterator[None]:
    """Bind the name that predicates inside refer to."""
    low.scope[name] = Binding(value, low.loc(node))
    yield
    low.scope.pop(name, None)


def logical(low: Lowering, node: Logical) -> object:
    """Compile `&&` and `||`, elementwise on tiles; both sides are computed."""
    left: Any = low.expression(node.left)
    op = "and" if node.op == "&&" else "or"
    if not isinstance(left, Tensor) and bool(left) is (op == "or"):
        return bool(left)
    low.at(node.left)
    left = truth_of(low, left)
    with hidden(low, node.hidden, left, node.left):
        right: Any = low.expression(node.right)
    low.at(node)
    return operators.logical(low.build, op, left, truth_of(low, right))


def conditional(low: Lowering, node: Conditional) -> object:
    """Compile `test ? a : b`, elementwise on tiles.

    Both sides are computed; their memory accesses take place where that side is chosen.
    """
    test: Any = low.expression(node.test)
    number = constant_value(test) if isinstance(test, Tensor) else test
    low.at(node.test)
    chosen = truth_of(low, test) if number is None else bool(number)
    with hidden(low, node.hidden, chosen, node.test):
        sides: Any = [low.expression(node.body), low.expression(node.orelse)]
    if isinstance(chosen, bool) and all(isinstance(side, int) for side in sides):
        return sides[0] if chosen else sides[1]
    low.at(node)
    ty = _common_type(*sides)
    if isinstance(chosen, bool):
        return convert(low, sides[0] if chosen else sides[1], ty)
    first, second = (convert(low, side, ty) for side in sides)
    return selection.where.emit(low.build, chosen, first, second)


def _common_type(a: Any, b: Any) -> Scalar | Pointer:
    """Return the type of `test ? a : b`."""
    if operators.is_pointer(a) and operators.is_pointer(b):
        dtype: Scalar | Pointer = a.dtype
        return dtype
    if operators.is_pointer(a) or operators.is_pointer(b):
        raise CompilationError(f"`?:` chooses between {describe(a)} and {describe(b)}")
    first, second = type_of(a), type_of(b)
    return I1 if first == second == I1 else common(first, second)
