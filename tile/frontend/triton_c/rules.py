"""Compile the nodes of Triton-C to IR. Nodes that Python has too have the rules of Python.

`arithmetic` has the operators; accesses, calls, statements and the table of all rules are here.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tile.errors import CompilationError
from tile.frontend.python import calls, expressions, loops, statements
from tile.frontend.python.lowering_context import Expression, Lowering, Rules, Statement
from tile.frontend.python.value_trees import POISON, materialize
from tile.frontend.triton_c.arithmetic import (
    binary,
    compile_time,
    conditional,
    convert,
    describe,
    extents,
    literal,
    logical,
    operate,
    predicate,
    to_declared,
    truth_of,
    type_of,
    unary,
)
from tile.frontend.triton_c.c_types import CType, common
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
from tile.ir.types import I32, I64, Pointer, Scalar, Tile, Type
from tile.language import creation, memory, operators, program, selection
from tile.language.base import promotion
from tile.language.base.tensor import Tensor


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
    return truth_of(low, value) if operators.is_pointer(value) else value


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
