"""Loads, stores and atomics through pointers, and the checks of their pointers, values and masks.

An atomic returns the value that memory held before.

An atomic load is a read-modify-write that keeps memory, an atomic store one without an old value.
Targets may have
instructions for both, as `tile.backends.nvptx.emit.atomics` does. A poll is a loop of loads, so
each backend has it, and the interpreter reports one that nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.ops import arith, control, program
from tile.ir.ops import memory as ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import RMW_ELEMENTS, CacheModifier, Eviction, Order, RMWKind, Scope
from tile.ir.types import I1, INTEGERS, SCALARS, U64, Pointer, Scalar, Type, with_element
from tile.language.base.builtin import Builtin, builtin, member
from tile.language.base.promotion import (
    Operand,
    as_number,
    cast_to,
    check_bits,
    common_shape,
    constant,
    convert,
    convert_shape,
    describe,
    keep_value,
    to_tensor,
)
from tile.language.base.static_args import choice, compile_time, compile_time_bool
from tile.language.base.tensor import BlockPointer, Tensor
from tile.language.block_pointer import block_operands, padding
from tile.language.operators import binary, compare, logical, unary
from tile.language.reductions import reduce_or
from tile.short_repr import short_repr


def pointee(name: str, pointer: Any) -> Scalar | Pointer:
    """Return the pointee type; raise `CompilationError` if `pointer` is not a pointer."""
    if not isinstance(pointer, Tensor) or not isinstance(pointer.dtype, Pointer):
        raise CompilationError(
            f"{name} takes a pointer or a tile of pointers, not {describe(pointer)}"
        )
    return pointer.dtype.pointee


def as_mask(build: Builder, name: str, mask: Operand | None) -> Tensor | None:
    """Return a mask as `tl.int1`, or None if it is always true."""
    if mask is None:
        return None
    number = as_number(mask)
    if number is not None:
        if number not in (0, 1):
            raise CompilationError(f"the mask of {name} is True or False, not {short_repr(number)}")
        return None if number else to_tensor(build, False)
    tensor = to_tensor(build, mask, f"the mask of {name}")
    if not tensor.dtype.is_bool():
        raise CompilationError(
            f"the mask of {name} is of tl.int1, not {tensor.type}; compare it, as in mask != 0"
        )
    return tensor


def mask_operand(build: Builder, mask: Tensor | None, pointer: Tensor) -> Value | None:
    """Return a mask as an operand, broadcast to the shape of the pointers; None if absent."""
    return None if mask is None else convert_shape(build, mask, pointer.shape).value


def check_scalar(name: str, pointer: Tensor, **arguments: Any) -> None:
    """Raise `CompilationError` if an argument of an access through a scalar pointer is a tile."""
    for parameter, x in arguments.items():
        if isinstance(x, Tensor) and x.shape:
            raise CompilationError(
                f"{name} through one pointer of type {pointer.type} takes a scalar as its "
                f"{parameter}, not "
                f"{x.type}; for a tile add offsets to the pointer, as in pointer + tl.arange(0, N)"
            )


def write_operands(
    build: Builder,
    name: str,
    pointer: Tensor,
    mask: Operand | None,
    cast: Callable[[Builder, Any, Type, str], Tensor] = cast_to,
    **values: Any,
) -> list[Value | None]:
    """Return the pointer, the values and the mask of a write as operands.

    Values are converted to the element type by `cast`; they and the mask are broadcast to the
    pointers' shape. Raises `CompilationError` if that is not possible.
    """
    element = pointee(name, pointer)
    guard = as_mask(build, name, mask)
    if not pointer.shape:
        check_scalar(name, pointer, **values, mask=guard)
    for parameter, x in {**values, "mask": guard}.items():
        if isinstance(x, Tensor) and common_shape(pointer.shape, x.shape) != pointer.shape:
            raise CompilationError(
                f"{name} through pointers of shape {list(pointer.shape)} takes a {parameter} of "
                f"that shape, not {list(x.shape)}"
            )
    ty = with_element(pointer.type, element)
    tensors = [cast(build, x, ty, f"the {n} of {name}") for n, x in values.items()]
    return [pointer.value, *(x.value for x in tensors), mask_operand(build, guard, pointer)]


def _caches(*modifiers: CacheModifier) -> dict[str, CacheModifier]:
    return {"": CacheModifier.NONE, **{f".{modifier}": modifier for modifier in modifiers}}


LOAD_CACHES = _caches(CacheModifier.CA, CacheModifier.CG, CacheModifier.CS, CacheModifier.CV)
STORE_CACHES = _caches(CacheModifier.WB, CacheModifier.CG, CacheModifier.CS, CacheModifier.WT)
EVICTIONS = {
    "": Eviction.NONE,
    "evict_normal": Eviction.NONE,
    "evict_first": Eviction.FIRST,
    "evict_last": Eviction.LAST,
}
ORDERS = {order.value: order for order in Order}
SCOPES = {scope.value: scope for scope in Scope}


@builtin
def load(
    build: Builder,
    pointer: Tensor | BlockPointer,
    mask: Operand | None = None,
    other: Operand | None = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Tensor:
    """Read the element at `pointer`, or a tile of them through a tile of pointers.

    `mask` (`tl.int1`) and `other` are broadcast with the pointers, and `other` is cast to the
    element type. Where the mask is false, nothing is read: the element is that of `other`, or
    undefined without it. A block pointer (`tl.make_block_ptr`) takes `boundary_check` instead, the
    axes along which indices may be out of bounds; there the element is 0, or NaN with
    `padding_option="nan"`.

    `cache_modifier` is "", ".ca", ".cg", ".cs" or ".cv", and `eviction_policy` "", "evict_first" or
    "evict_last". They are hints: async copies to shared memory keep those that the
    target supports, and OpenCL has none. With ".ca", operands that lanes multiply as they load them
    are not loaded early. A volatile load is never merged or moved. Raises `CompilationError` if
    `pointer` is not a pointer, if `mask` or `other` is a tile and `pointer` a scalar, for `other`
    without `mask`, and for a mask that is not boolean.
    """
    if isinstance(pointer, BlockPointer):
        _no_mask("tl.load", mask=mask, other=other)
        outside = padding("tl.load", pointer, padding_option)
        pointer, mask = block_operands(build, "tl.load", pointer, boundary_check)
        other = None if mask is None else outside
    else:
        _no_boundary("tl.load", boundary_check, padding_option)
    element = pointee("tl.load", pointer)
    if mask is None and other is not None:
        raise CompilationError("tl.load takes `other` only with a `mask`")
    guard = as_mask(build, "tl.load", mask)
    if not pointer.shape:
        check_scalar("tl.load", pointer, mask=guard, other=other)
    shapes = [x.shape for x in (guard, other) if isinstance(x, Tensor)]
    pointer = convert_shape(build, pointer, common_shape(pointer.shape, *shapes))
    result = with_element(pointer.type, element)
    loaded = build(
        ops.load,
        pointer.value,
        mask_operand(build, guard, pointer),
        cast_to(build, other, result, "the other of tl.load").value
        if other is not None and guard is not None
        else None,
        cache=_cache("tl.load", cache_modifier, LOAD_CACHES),
        eviction=choice(eviction_policy, "the eviction_policy of tl.load", EVICTIONS, ""),
        volatile=compile_time_bool(volatile, "the volatile of tl.load"),
    )
    return Tensor(loaded)


@member
def store(
    build: Builder,
    pointer: Tensor | BlockPointer,
    value: Operand,
    mask: Operand | None = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write `value` at `pointer`, or a tile through a tile of pointers, where `mask` is true.

    `value` is cast to the element type; it and `mask` (`tl.int1`) are broadcast to the shape of the
    pointers. A block pointer takes `boundary_check` instead of a mask, as in `tl.load`.
    `cache_modifier` is "", ".wb", ".cg", ".cs" or ".wt". Raises `CompilationError` if
    `pointer` is not a pointer, or if the shape of `value` or `mask` does not broadcast to that of
    the pointers.
    """
    if isinstance(pointer, BlockPointer):
        _no_mask("tl.store", mask=mask)
        pointer, mask = block_operands(build, "tl.store", pointer, boundary_check)
    else:
        _no_boundary("tl.store", boundary_check, "")
    build.op(
        ops.store,
        *write_operands(build, "tl.store", pointer, mask, value=value),
        cache=_cache("tl.store", cache_modifier, STORE_CACHES),
        eviction=choice(eviction_policy, "the eviction_policy of tl.store", EVICTIONS, ""),
    )


def _no_boundary(name: str, boundary_check: Any, padding_option: Any) -> None:
    if boundary_check or padding_option:
        raise CompilationError(
            f"{name} through plain pointers does not know the bounds of the array, so it takes "
            "neither `boundary_check` nor `padding_option`; give a `mask`"
        )


def _no_mask(name: str, **arguments: Any) -> None:
    present = [parameter for parameter, x in arguments.items() if x is not None]
    if present:
        raise CompilationError(
            f"{name} through a block pointer takes no `{present[0]}`; boundary_check lists the "
            "axes along which to mask"
        )


def _cache(name: str, modifier: Any, choices: dict[str, CacheModifier]) -> CacheModifier:
    subject = f"the cache_modifier of {name}"
    text = compile_time(modifier, subject) or ""
    return choice(f".{text}" if f".{text}" in choices else text, subject, choices, "")


def _atomic(kind: RMWKind, doc: str) -> Builtin[..., Tensor]:
    """Declare the atomic update of memory by a value of the given kind."""
    name = f"atomic_{kind}"

    def update(
        build: Builder,
        pointer: Tensor,
        val: Operand,
        mask: Operand | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        operands = write_operands(build, f"tl.{name}", pointer, mask, val=val)
        return Tensor(
            build(ops.atomic_rmw, *operands, kind=kind, **ordering(f"tl.{name}", sem, scope))
        )

    update.__name__ = update.__qualname__ = name
    update.__doc__ = doc
    return member(update)


def ordering(
    name: str,
    sem: Any,
    scope: Any,
    orders: Mapping[str, Order] = ORDERS,
    default: Order = Order.ACQ_REL,
) -> dict[str, Any]:
    """Return the memory order and the scope of an atomic operation, as attributes."""
    return {
        "order": choice(sem, f"the sem of {name}", orders, default),
        "scope": choice(scope, f"the scope of {name}", SCOPES, Scope.DEVICE),
    }


atomic_add = _atomic(
    RMWKind.ADD,
    """Add `val` to memory atomically, and return the old value.

    Elements are integers of 8 to 64 bits or floats of 16 to 64 bits.
    `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type.
    Where the mask is false, memory is not changed and the result is undefined. `sem` is the memory
    order: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` is the set of threads
    with respect to which it is atomic: "cta", "gpu" (the default) or "sys". Raises
    `CompilationError` or `TypeRuleError` for other arguments.
    """,
)
atomic_max = _atomic(RMWKind.MAX, "Write the greater of memory and `val`; see `tl.atomic_add`.")
atomic_min = _atomic(RMWKind.MIN, "Write the lesser of memory and `val`; see `tl.atomic_add`.")
atomic_and = _atomic(RMWKind.AND, "Write memory `& val` (integers); see `tl.atomic_add`.")
atomic_or = _atomic(RMWKind.OR, "Write memory `| val` (integers); see `tl.atomic_add`.")
atomic_xor = _atomic(RMWKind.XOR, "Write memory `^ val` (integers); see `tl.atomic_add`.")
atomic_xchg = _atomic(RMWKind.XCHG, "Write `val` and return the old value; see `tl.atomic_add`.")


@member
def atomic_cas(
    build: Builder,
    pointer: Tensor,
    cmp: Operand,
    val: Operand,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` atomically if memory holds `cmp` (bitwise), and return the old value.

    `cmp` and `val` are broadcast to the shape of `pointer`. Their types are the element type, or
    narrower ones of its kind: no cast may change what is compared. For elements, `sem` and `scope`
    see `tl.atomic_add`.
    """
    name = "tl.atomic_cas"
    operands = write_operands(build, name, pointer, None, cast=keep_value, cmp=cmp, val=val)
    return Tensor(build(ops.atomic_cas, *operands, **ordering(name, sem, scope)))


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
