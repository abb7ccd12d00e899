"""Atomic loads, stores and polls.

A load is a read-modify-write that keeps memory, a store one without an old value. Targets may have
instructions for both, as `tile.backends.nvptx.emit.atomics` does. A poll is a loop of loads, so
each backend has it, and the interpreter reports one that nothing ends.
"""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.ops import arith, control, program
from tile.ir.ops import memory as ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import RMW_ELEMENTS, Order, RMWKind
from tile.ir.types import I1, INTEGERS, SCALARS, U64, Pointer, Scalar, with_element
from tile.language.base.builtin import member
from tile.language.base.promotion import (
    Operand,
    as_number,
    check_bits,
    constant,
    convert,
    to_tensor,
)
from tile.language.base.tensor import Tensor
from tile.language.memory import ordering, pointee, write_operands
from tile.language.operators import binary, compare, logical, unary
from tile.language.reductions import reduce_or

LOAD_ORDERS = {order.value: order for order in (Order.ACQUIRE, Order.RELAXED)}
STORE_ORDERS = {order.value: order for order in (Order.RELEASE, Order.RELAXED)}


@member
def atomic_load(
    build: Builder,
    pointer: Tensor,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Read the element at `pointer` atomically, or a tile of them through a tile of pointers.

    Elements are numbers or booleans. Where the mask is false, nothing is read and the result is
    undefined. `sem` is "acquire" (the default) or "relaxed"; for `scope` see `tl.atomic_add`. The
    memory must be writable, as it is written with its own value.
    """
    return _load(build, "tl.atomic_load", pointer, mask, sem, scope)


@member
def atomic_store(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> None:
    """Write `val` at `pointer` atomically, or a tile through a tile of pointers.

    Elements are numbers or booleans; `val` and `mask` are as in `tl.atomic_add`. `sem` is "release"
    (the default) or "relaxed"; for `scope` see `tl.atomic_add`.
    """
    name = "tl.atomic_store"
    ptr, stored, guard = write_operands(build, name, pointer, mask, val=val)
    element = pointee(name, pointer)
    if element not in RMW_ELEMENTS[RMWKind.STORE]:
        bits = _bits_type(name, element)
        ptr = build(arith.bitcast, ptr, to=Pointer(bits))
        stored = build(arith.cast if element is I1 else arith.bitcast, stored, to=bits)
    attributes = ordering(name, sem, scope, STORE_ORDERS, Order.RELEASE)
    build.op(ops.atomic_rmw, ptr, stored, guard, kind=RMWKind.STORE, **attributes)


@member
def atomic_poll(
    build: Builder,
    pointer: Tensor,
    expected_value: Operand,
    sem: str | None = None,
    scope: str | None = None,
    timeout_ns: Operand | None = None,
) -> Tensor:
    """Wait until the integer at `pointer`, or each of a tile of pointers, equals `expected_value`.

    `expected_value` is cast to the element type and broadcast to the shape of `pointer`. Each
    element is read by `tl.atomic_load` (with `sem` and `scope`) until it was equal once. The result
    is a `tl.int1` for each element. It is false only if `timeout_ns`, a scalar integer, is given
    and so many nanoseconds of `tl.extra.cuda.globaltimer` passed before; each element is read at
    least once. Raises `CompilationError` for elements that are not integers, for a number that they
    cannot have, and for a negative `timeout_ns`.

        ready = tl.atomic_poll(flags + tl.arange(0, 8), 1)
    """
    name = "tl.atomic_poll"
    element = pointee(name, pointer)
    if element not in INTEGERS:
        raise CompilationError(f"{name} takes pointers to integers, not {pointer.type}")
    number = as_number(expected_value)
    if number is not None:
        check_bits(number, element, f"the expected_value of {name}")
    _, expected, _ = write_operands(build, name, pointer, None, expected_value=expected_value)
    assert expected is not None
    deadline = None if timeout_ns is None else _Deadline(build, name, timeout_ns)
    pending = constant(build, True, with_element(pointer.type, I1))
    inits = [pending] if deadline is None else [pending, to_tensor(build, False)]
    test, body = (Block([x.type for x in inits]) for _ in range(2))
    with build.into(test):
        more, *expired = (Tensor(x) for x in test.args)
        if pointer.shape:
            more = reduce_or.emit(build, more)
        for passed in expired:
            more = logical(build, "and", more, unary(build, "not", passed))
        build.op(control.condition, more.value)
    with build.into(body):
        still = Tensor(body.args[0])
        loaded = _load(build, name, pointer, still, sem, scope)
        differs = compare(build, "!=", loaded, Tensor(expected))
        left = build(arith.select, still.value, differs.value, still.value)
        build.op(control.yield_, left, *([] if deadline is None else [deadline.passed(build)]))
    operands = [x.value for x in inits]
    loop = build.op(control.while_, *operands, regions=(test, body))
    return Tensor(build(arith.not_, loop.results[0]))


class _Deadline:
    """The end of a time budget that starts when this is created."""

    def __init__(self, build: Builder, name: str, timeout_ns: Any) -> None:
        number = as_number(timeout_ns)
        if number is not None and number < 0:
            raise CompilationError(f"the timeout_ns of {name} is not negative; it is {number}")
        subject = f"the timeout_ns of {name}"
        budget = to_tensor(build, timeout_ns, subject)
        if budget.shape or budget.dtype not in INTEGERS:
            raise CompilationError(f"{subject} is a scalar integer, not {budget.type}")
        self.budget = convert(build, budget, U64)
        self.start = self._now(build)

    def passed(self, build: Builder) -> Value:
        """Emit the test whether the budget is spent."""
        spent = binary(build, "-", self._now(build), self.start)
        return build(arith.cmp, spent.value, self.budget.value, predicate=Predicate.GE)

    @staticmethod
    def _now(build: Builder) -> Tensor:
        return convert(build, Tensor(build(program.global_timer)), U64)


def _load(
    build: Builder, name: str, pointer: Any, mask: Operand | None, sem: Any, scope: Any
) -> Tensor:
    """Emit an atomic load, by a bitwise or with zero."""
    element = pointee(name, pointer)
    bits = pointer
    if element not in INTEGERS:
        bits = convert(build, pointer, Pointer(_bits_type(name, element)))
    operands = write_operands(build, name, bits, mask, val=0)
    attributes = ordering(name, sem, scope, LOAD_ORDERS, Order.ACQUIRE)
    loaded = Tensor(build(ops.atomic_rmw, *operands, kind=RMWKind.OR, **attributes))
    if element is I1:
        return convert(build, loaded, I1)
    if element in INTEGERS:
        return loaded
    return Tensor(build(arith.bitcast, loaded.value, to=element))


def _bits_type(name: str, element: Scalar | Pointer) -> Scalar:
    """Return the unsigned integer that holds an element's bits in memory."""
    if isinstance(element, Pointer):
        raise CompilationError(
            f"{name} takes pointers to numbers, not to pointers; cast the pointer to "
            "tl.pointer_type(tl.int64)"
        )
    return SCALARS[f"u{element.storage_bits}"]
