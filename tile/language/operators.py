"""Python's operators on tiles and scalars.

Operands are runtime values or compile-time Python objects. If both are compile-time values,
Python's own operator computes the result. Otherwise numbers are promoted by the rules of
`tile.language.base.promotion`, shapes are broadcast, and one elementwise operation is emitted.
Integer division truncates towards zero, and a remainder has the sign of the dividend. `>>` of a
signed integer is an arithmetic shift, whatever the type of the shift amount.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory
from tile.ir.ops.arith import Predicate
from tile.ir.types import F32, I1, I8, I16, I32, I64, U32, U64, Pointer, Scalar
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import (
    broadcast_together,
    constant,
    convert,
    describe,
    refuse,
    to_tensor,
    unify,
)
from tile.language.base.static_args import (
    MOST_BITS,
    MOST_ITEMS,
    compile_time_int,
    constant_value,
    failed,
    static_truth,
    too_large,
)
from tile.language.base.tensor import Tensor
from tile.language.shape import expand_dims
from tile.language.slices import positions_of, take
from tile.language.tables import lookup
from tile.short_repr import short_repr

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
PYTHON_UNARY: dict[str, Callable[[Any], Any]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "not": operator.not_,
}
ARITHMETIC = {"+": arith.add, "-": arith.sub, "*": arith.mul}
BITWISE = {"&": arith.and_, "|": arith.or_, "^": arith.xor, "<<": arith.shl, ">>": arith.shr}
COMPARISONS = {
    "==": Predicate.EQ,
    "!=": Predicate.NE,
    "<": Predicate.LT,
    "<=": Predicate.LE,
    ">": Predicate.GT,
    ">=": Predicate.GE,
}
SIGNED = (I8, I16, I32, I64)
INSTEAD = {
    "**": "multiply, or write tl.exp2(tl.log2(x) * y)",
    "@": "write tl.dot(a, b)",
}


def binary(build: Builder, op: str, a: Any, b: Any) -> Any:
    """Emit `a op b` for an arithmetic or bitwise operator: `+ - * / // % & | ^ << >> ** @`.

    Raises `CompilationError` if the operator is not defined on the operands.
    """
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return constant_binary(op, a, b)
    if op in INSTEAD:
        raise CompilationError(f"`{op}` is not defined on tiles and scalars; {INSTEAD[op]}")
    if is_pointer(a) or is_pointer(b):
        return _pointer(build, op, a, b)
    if op in ARITHMETIC:
        x, y = unify(build, op, a, b)
        return emit(build, op, ARITHMETIC[op], x, y)
    if op in BITWISE:
        x, y = unify(build, op, a, b)
        if x.dtype.is_floating():
            refuse(op, a, b)
        if op == ">>" and isinstance(a, Tensor):
            return _shift_right(build, a.dtype, x, y)
        return emit(build, op, BITWISE[op], x, y)
    return _divide(build, op, *unify(build, op, a, b, dividing=True))


def _shift_right(build: Builder, shifted: Scalar | Pointer, x: Tensor, y: Tensor) -> Tensor:
    """Emit `x >> y` in the common type, arithmetic if the operand's own type is signed."""
    common = x.dtype
    assert isinstance(shifted, Scalar) and isinstance(common, Scalar)
    if shifted.signed and not common.signed:
        signed = next(ty for ty in SIGNED if ty.bits == common.bits)
        x, y = convert(build, x, signed), convert(build, y, signed)
    return convert(build, emit(build, ">>", arith.shr, x, y), common)


def _divide(build: Builder, op: str, x: Tensor, y: Tensor) -> Tensor:
    if op == "//" and x.dtype.is_floating():
        raise CompilationError(
            f"`//` is defined on integers, not on {x.type}; write tl.floor(x / y) for the quotient "
            "of floats rounded down"
        )
    if op == "/" and x.dtype.is_int():
        x, y = convert(build, x, F32), convert(build, y, F32)
    return emit(build, op, arith.rem if op == "%" else arith.div, x, y)


def compare(build: Builder, op: str, a: Any, b: Any) -> Any:
    """Emit `a op b` for `== != < <= > >=`, of type `tl.int1`; pointers compare by address.

    Raises `CompilationError` if the operands cannot be compared.
    """
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return constant_binary(op, a, b)
    x, y = unify(build, op, a, b, comparing=True)
    return emit(build, op, arith.cmp, x, y, predicate=COMPARISONS[op])


def unary(build: Builder, op: str, a: Any) -> Any:
    """Emit `+a`, `-a`, `~a` or `not a`.

    Raises `CompilationError` if the operator is not defined on the operand.
    """
    if not isinstance(a, Tensor):
        return _python_unary(op, a)
    if op == "not":
        return Tensor(build(arith.not_, truth(build, a, "`not`").value))
    if is_pointer(a) or (op == "~" and a.dtype.is_floating()):
        raise CompilationError(f"`{op}` is not defined on {a.type}")
    if op == "+":
        return a
    if op == "~":
        return emit(build, op, arith.not_, a)
    if a.dtype.is_bool():
        return emit(build, op, arith.sub, constant(build, False, a.type), a)
    return emit(build, op, arith.neg, a)


def logical(build: Builder, op: str, a: Any, b: Any) -> Any:
    """Emit `a and b` or `a or b` of operands that are both evaluated already.

    A compile-time operand short-circuits as in Python: the result is that operand, or the other
    one. Two runtime values give `tl.int1`, elementwise.
    """
    stops = {"and": False, "or": True}[op]
    for x, other in ((a, b), (b, a)):
        if not isinstance(x, Tensor):
            return x if static_truth(x, f"an operand of `{op}`") is stops else other
    x, y = broadcast_together(build, truth(build, a, f"`{op}`"), truth(build, b, f"`{op}`"))
    return Tensor(build(arith.and_ if op == "and" else arith.or_, x.value, y.value))


def truth(build: Builder, x: Any, subject: str) -> Tensor:
    """Return `x != 0` as `tl.int1`, elementwise; `subject` names the user of `x` in errors."""
    tensor = to_tensor(build, x, f"the operand of {subject}")
    return convert(build, tensor, I1)


def subscript(build: Builder, x: Any, index: Any) -> Any:
    """Return `x[index]`: an item of a compile-time object, or a part of a tile.

    A tile takes compile-time integers and slices (`tile.language.slices`), `None`, which inserts an
    axis of extent 1, and `...`; a tuple of numbers takes runtime integers (`tile.language.tables`).
    Raises `CompilationError` for anything else.
    """
    if not isinstance(x, Tensor):
        return _item(build, x, index)
    items = list(index) if isinstance(index, tuple) else [index]
    named = sum(item is not None and item is not Ellipsis for item in items)
    ellipses = sum(item is Ellipsis for item in items)
    if named > len(x.shape) or ellipses > 1:
        is_pointer = isinstance(x.type, Pointer)
        hint = "; tl.load(pointer + index) reads memory" if is_pointer else ""
        raise CompilationError(f"too many indices for a value of type {x.type}{hint}")
    where = next((at for at, item in enumerate(items) if item is Ellipsis), len(items))
    items[where : where + 1] = [slice(None)] * (len(x.shape) - named)
    return _part(build, x, items)


def _item(build: Builder, x: Any, index: Any) -> Any:
    """Return an item of a compile-time object; entries of a table for runtime indices."""
    if not isinstance(x, tuple):
        return _python_subscript(x, index)
    indices = index if isinstance(index, tuple) and index else (index,)
    if any(isinstance(item, Tensor) and constant_value(item) is None for item in indices):
        return lookup(build, x, indices)
    for item in indices:
        x = _python_subscript(x, item)
    return x


def _part(build: Builder, x: Tensor, items: list[Any]) -> Tensor:
    """Return `x[items]` with an index or a slice for each axis, and `None` for new axes."""
    selecting = [item for item in items if item is not None]
    positions = [positions_of(x, axis, item) for axis, item in enumerate(selecting)]
    x = take(build, x, positions)
    each = iter(positions)
    remaining = [item for item in items if item is None or not next(each).dropped]
    for axis, item in enumerate(remaining):
        if item is None:
            x = expand_dims.emit(build, x, axis)
    return x


def emit(build: Builder, op: str, defn: OpDef, *xs: Tensor, **attributes: Any) -> Tensor:
    """Emit an operation on runtime values of one type; refuse 8-bit floats, a storage type."""
    if xs[0].dtype.is_fp8():
        raise CompilationError(
            f"`{op}` is not defined on {spelled(xs[0].dtype)}, which is for storage, casts and "
            "tl.dot; cast first: x.to(tl.float32)"
        )
    return Tensor(build(defn, *(x.value for x in xs), **attributes))


def is_pointer(x: Any) -> bool:
    """Return whether this is a pointer or a tile of pointers."""
    return isinstance(x, Tensor) and isinstance(x.dtype, Pointer)


def _pointer(build: Builder, op: str, a: Any, b: Any) -> Tensor:
    """Emit pointer arithmetic: `pointer + integer`, `integer + pointer`, `pointer - integer`."""
    if op == "+" and not is_pointer(a):
        a, b = b, a
    if is_pointer(a) and is_pointer(b) and op in "+-":
        raise CompilationError(
            f"`{op}` is not defined on two pointers; for a difference of addresses in bytes write "
            f"a.to(tl.int64) - b.to(tl.int64)"
        )
    offset = to_tensor(build, b, f"the offset of a pointer in `{op}`")
    if op not in "+-" or not is_pointer(a) or not offset.dtype.is_int():
        refuse(op, a, b)
    if op == "-":
        # a signed type that holds the negated values, as far as 64 bits allow
        wide = convert(build, offset, I64 if offset.dtype in (U32, U64, I64) else I32)
        offset = Tensor(build(arith.neg, wide.value))
    elif offset.dtype.is_bool():
        offset = convert(build, offset, I32)
    pointer, offset = broadcast_together(build, a, offset)
    stride = pointer.dtype.pointee.itemsize if isinstance(pointer.dtype, Pointer) else 1
    return Tensor(build(memory.addptr, pointer.value, offset.value, stride=stride))


def constant_binary(op: str, a: Any, b: Any) -> Any:
    """Return a binary operator's result on compile-time values; raise `CompilationError`."""
    integers = isinstance(a, int) and isinstance(b, int)
    if _size(op, a, b) > (MOST_BITS if integers else MOST_ITEMS):
        raise too_large(f"{describe(a)} {op} {describe(b)}", "bits" if integers else "items")
    try:
        return PYTHON[op](a, b)
    except Exception as error:  # noqa: BLE001 - the class of a constant defines its operators
        raise failed(f"{describe(a)} {op} {describe(b)}", error) from None


def _size(op: str, a: Any, b: Any) -> int:
    """Return a lower bound of the bits of the integer `a op b`, or of the items of a sequence.

    Return 0 if the result is not much larger than the operands.
    """
    if isinstance(a, int) and isinstance(b, int):
        if op == "<<":
            return a.bit_length() + b if a else 0
        if op == "**":
            return (a.bit_length() - 1) * b if a not in (-1, 0, 1) else 0
        return max(a.bit_length() + b.bit_length() - 1, 0) if op == "*" else 0
    if op == "*":
        for sequence, times in ((a, b), (b, a)):
            if isinstance(sequence, str | tuple) and isinstance(times, int):
                return len(sequence) * times
    return len(a) + len(b) if isinstance(a, str | tuple) and type(a) is type(b) else 0


def _python_unary(op: str, a: Any) -> Any:
    try:
        return PYTHON_UNARY[op](a)
    except Exception as error:  # noqa: BLE001 - as above
        raise failed(f"{op} {describe(a)}", error) from None


def _python_subscript(x: Any, index: Any) -> Any:
    key = _constant_slice(index) if isinstance(index, slice) else _constant_index(x, index)
    try:
        return x[key]
    except Exception as error:  # noqa: BLE001 - as above
        raise failed(f"{describe(x)}[{short_repr(key)}]", error) from None


def _constant_index(x: Any, index: Any) -> Any:
    if not isinstance(index, Tensor):
        return constant_value(index)
    return compile_time_int(index, f"an index into {type(x).__name__}")


def _constant_slice(index: slice) -> slice:
    bounds = (index.start, index.stop, index.step)
    start, stop, step = (
        b if b is None else compile_time_int(b, "a bound of a slice") for b in bounds
    )
    return slice(start, stop, step)
