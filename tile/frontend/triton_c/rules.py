"""Compile the nodes of Triton-C to IR. Nodes that Python has too have the rules of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tile.errors import CompilationError
from tile.frontend.python import calls, expressions, loops, statements
from tile.frontend.python.lowering_context import Binding, Expression, Lowering, Rules, Statement
from tile.frontend.python.value_trees import POISON, materialize
from tile.frontend.triton_c.c_types import SPELLINGS, CType, common, promoted, truncated
from tile.frontend.triton_c.function import TritonCFunction
from tile.frontend.triton_c.intrinsics import INTRINSICS
from tile.frontend.triton_c.nodes import (
    ALL,
    SLICED,
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    CountedLoop,
    Dereference,
    For,
    GlobalRange,
    Literal,
    Logical,
    Range,
    Store,
    Subscript,
    Test,
    Unary,
)
from tile.ir.types import F64, I1, I32, I64, U64, Pointer, Scalar, Tile, Type
from tile.language import creation, memory, operators, program, selection
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
        result = operators.logical(low.build, "and", result, _truth(low, value))
    return result


def _truth(low: Lowering, value: Any) -> Any:
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
    left = _truth(low, left)
    with hidden(low, node.hidden, left, node.left):
        right: Any = low.expression(node.right)
    low.at(node)
    return operators.logical(low.build, op, left, _truth(low, right))


def conditional(low: Lowering, node: Conditional) -> object:
    """Compile `test ? a : b`, elementwise on tiles.

    Both sides are computed; their memory accesses take place where that side is chosen.
    """
    test: Any = low.expression(node.test)
    number = constant_value(test) if isinstance(test, Tensor) else test
    low.at(node.test)
    chosen = _truth(low, test) if number is None else bool(number)
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


def range_(low: Lowering, node: Range) -> object:
    """Compile `first ... last`."""
    first = compile_time(low, node.first, "a bound of `...`")
    last = compile_time(low, node.last, "a bound of `...`")
    low.at(node)
    return creation.arange.emit(low.build, first, last)


def global_range(low: Lowering, node: GlobalRange) -> object:
    """Compile `get_global_range`: the program's index times the extent, and an offset for each."""
    extent = compile_time(low, node.extent, "the extent of get_global_range")
    axis = compile_time(low, node.axis, "the axis of get_global_range")
    low.at(node)
    first = operators.binary(low.build, "*", program.program_id.emit(low.build, axis), extent)
    return operators.binary(low.build, "+", first, creation.arange.emit(low.build, 0, extent))


def dereference(low: Lowering, node: Dereference) -> object:
    """Compile `*pointer`: a load, masked by the predicates."""
    pointer = low.expression(node.pointer)
    mask = predicate(low, node.predicates)
    low.at(node)
    return load(low, pointer, mask)


def load(low: Lowering, pointer: Any, mask: Any) -> object:
    """Emit a load; where the mask is false, the elements are undefined."""
    pointer, mask = access(low, pointer, mask)
    return memory.load.emit(low.build, pointer, None if mask is True else mask)


def access(low: Lowering, pointer: Any, mask: Any) -> tuple[Tensor, Any]:
    """Return pointers and mask of an access in their common shape."""
    if not isinstance(pointer, Tensor) or not isinstance(pointer.dtype, Pointer):
        raise CompilationError(f"`*` takes a pointer, and this is {describe(pointer)}")
    if isinstance(mask, Tensor):
        pointer, mask = promotion.broadcast_together(low.build, pointer, mask)
    return pointer, mask


def subscript(low: Lowering, node: Subscript) -> object:
    """Compile `tile[:, newaxis]` and `pointer[index]`."""
    value = low.expression(node.value)
    named = [None if isinstance(item, ast.Constant) else item for item in node.index]
    if named == [node.index[0]]:
        if not operators.is_pointer(value):
            raise CompilationError(SLICED)
        index = low.expression(node.index[0])
        mask = predicate(low, node.predicates)
        low.at(node)
        return load(low, operators.binary(low.build, "+", value, index), mask)
    items = []
    for item in node.index:
        if not isinstance(item, ast.Constant):
            low.fail(item, SLICED)
        items.append(slice(None) if item.value == ALL else None)
    if items.count(slice(None)) != (len(value.shape) if isinstance(value, Tensor) else 0):
        raise CompilationError(f"{describe(value)} takes as many `:` as it has axes; {SLICED}")
    low.at(node)
    return operators.subscript(low.build, value, tuple(items))


def cast(low: Lowering, node: Cast) -> object:
    """Compile `(type) operand`; a shape in the type broadcasts."""
    value: Any = low.expression(node.operand)
    low.at(node)
    if node.type.shape:
        return to_declared(low, value, node.type, "the cast")
    if isinstance(node.type.dtype, Pointer) or operators.is_pointer(value):
        if not operators.is_pointer(value):
            value = convert(low, value, I64)
        return promotion.convert(low.build, value, node.type.dtype)
    if isinstance(value, int) and node.type.dtype == I32:
        return int(value)
    return convert(low, value, node.type.dtype)


def test(low: Lowering, node: Test) -> object:
    """Compile the condition of a statement, which is a scalar."""
    value = low.expression(node.operand)
    if isinstance(value, Tensor) and value.shape:
        low.fail(
            node.operand,
            f"`{node.statement}` takes one condition, and this is a tile, {describe(value)}",
            ["to act element by element, write `@condition statement` or `condition ? a : b`"],
        )
    return _truth(low, value) if operators.is_pointer(value) else value


def call(low: Lowering, node: Call) -> object:
    """Compile a call of an intrinsic or of a function of the file."""
    intrinsic = INTRINSICS.get(node.function.id)
    arguments: list[Any] = [low.expression(argument) for argument in node.arguments]
    if intrinsic is None:
        return call_function(low, node, arguments)
    mask = predicate(low, node.predicates) if intrinsic.masked else True
    low.at(node)
    try:
        if mask is not True:
            pointer, mask = access(low, arguments[0], mask)
            return intrinsic.emit(low.build, pointer, *arguments[1:], mask=mask)
        return intrinsic.emit(low.build, *arguments)
    except TypeError:
        raise CompilationError(
            f"{node.function.id} does not take {len(arguments)} arguments"
        ) from None


def call_function(low: Lowering, node: Call, arguments: list[Any]) -> object:
    """Compile a call of a function of the file, with the tunables and constants that it needs."""
    callee = low.expression(node.function)
    assert isinstance(callee, TritonCFunction)
    if node.predicates and callee.unit.accesses_memory(callee.name):
        mask = predicate(low, node.predicates)
        if mask is not True:
            raise CompilationError(
                f"`{callee.name}` accesses memory, and is called under a predicate, which selects "
                "elements",
                notes=["call it before, or write `if (condition)` with a scalar condition"],
            )
    low.at(node)
    values: list[object] = []
    for argument, parameter in zip(arguments, callee.declared, strict=True):
        subject = f"parameter `{parameter.name}` of `{callee.name}`"
        values.append(to_declared_argument(low, argument, parameter.type, subject))
    names = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in callee.shared]
    values += map(low.expression, names)
    python_call = ast.copy_location(ast.Call(node.function, [], []), node)
    return calls.call_device(low, python_call, callee, values, {})


def to_declared_argument(low: Lowering, value: Any, ty: CType, subject: str) -> Tensor:
    """Return an argument converted to a parameter's type."""
    if not ty.shape and isinstance(value, Tensor) and value.shape:
        raise CompilationError(f"{subject} is {ty}, and this is {describe(value)}")
    return to_declared(low, value, ty, subject)


# -- statements


def assign(low: Lowering, node: Assign) -> None:
    """Compile a declaration or an assignment; without a value the variable is undefined."""
    loc = low.loc(node.target)
    name = node.target.id
    spelled = name.partition("@")[0]
    if node.value is None:
        low.at(node)
        shape = extents(low, node.type)
        ty: Type = Tile(shape, node.type.dtype) if shape else node.type.dtype
        low.bind(name, Tensor(materialize(low.build, POISON, ty)), loc)
        return
    value = low.expression(node.value)
    low.at(node.value)
    with low.errors_at(node.value):
        new = to_declared(low, value, node.type, f"`{spelled}`")
    mask = predicate(low, node.predicates)
    if mask is not True and name in low.scope:
        before = expressions.name(low, ast.copy_location(ast.Name(name, ast.Load()), node.target))
        new = selected(low, mask, new, before, spelled)
    low.bind(name, new, loc)


def selected(low: Lowering, mask: Any, new: Tensor, before: Any, name: str) -> Tensor:
    """Return the value after a predicated assignment."""
    if isinstance(mask, Tensor) and len(mask.shape) > len(new.shape):
        raise CompilationError(
            f"the predicate is {describe(mask)}, and `{name}` is {describe(new)}: the predicate of "
            "an assignment has the variable's shape"
        )
    result: Tensor = selection.where.emit(low.build, mask, new, before)
    return result


def store(low: Lowering, node: Store) -> None:
    """Compile `*pointer = value`: a store, masked by the predicates."""
    pointer = low.expression(node.pointer)
    value = low.expression(node.value)
    mask = predicate(low, node.predicates)
    low.at(node)
    pointer, mask = access(low, pointer, mask)
    assert isinstance(pointer.dtype, Pointer)
    element = convert(low, value, pointer.dtype.pointee)
    if element.shape:
        spread, element = promotion.broadcast_together(low.build, pointer, element)
        if spread.shape != pointer.shape:
            raise CompilationError(
                f"this stores {describe(element)} through {describe(pointer)}, several elements at "
                "one address; add a tile of offsets to the pointer"
            )
    memory.store.emit(low.build, pointer, element, None if mask is True else mask)


def for_loop(low: Lowering, node: For) -> None:
    """Compile a `for` as a `while` with a step."""
    loops.while_loop(low, node, node.step)


def counted_loop(low: Lowering, node: CountedLoop) -> None:
    """Compile a `for` that counts, by C's common type of the variable and its bound."""
    own = node.type.dtype
    assert isinstance(own, Scalar)
    first: Any = low.expression(node.lower)
    bound: Any = low.expression(node.iter)
    stride = compile_time(low, node.step, "the step of this loop")
    if any(isinstance(x, Tensor) and (x.shape or operators.is_pointer(x)) for x in (first, bound)):
        low.fail(node.iter, f"a loop's bounds are scalars, not {describe(bound)}")
    ty = common(own, type_of(bound))
    if ty.is_floating():
        low.fail(node.iter, "a counting loop has an integer bound; write a `while` loop")
    low.at(node.iter)
    lower = convert(low, convert(low, first, own), ty).value
    if node.offset:
        bound = operate(low, "+", convert(low, bound, ty), node.offset)
    upper = convert(low, bound, ty).value
    step = promotion.constant(low.build, stride, ty).value
    options = dict(loops.LOOP_OPTIONS)
    loops.counted_loop(low, node, node.target, loops.Bounds(lower, upper, step, options))


EXPRESSIONS: Mapping[type[ast.expr], Expression] = {
    ast.Constant: expressions.constant,
    ast.Name: expressions.name,
    Binary: binary,
    Call: call,
    Cast: cast,
    Conditional: conditional,
    Dereference: dereference,
    GlobalRange: global_range,
    Literal: literal,
    Logical: logical,
    Range: range_,
    Subscript: subscript,
    Test: test,
    Unary: unary,
}
STATEMENTS: Mapping[type[ast.stmt], Statement] = {
    ast.Assign: statements.assignment,
    ast.Break: statements.break_,
    ast.Continue: statements.continue_,
    ast.Expr: statements.expression,
    ast.Pass: statements.pass_,
    ast.Return: statements.return_,
    ast.While: statements.while_,
    Assign: assign,
    CountedLoop: counted_loop,
    For: for_loop,
    Store: store,
}
RULES = Rules(EXPRESSIONS, STATEMENTS, statements.body)
