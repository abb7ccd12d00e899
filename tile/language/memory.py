"""Loads, stores and atomics through pointers, and the checks of their pointers, values and masks.

An atomic returns the value that memory held before.
"""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops import memory as ops
from tile.ir.ops.memory import CacheModifier, Eviction, Order, RMWKind, Scope
from tile.ir.types import Pointer, Scalar, Type, with_element
from tile.language.core.builtin import builtin, member
from tile.language.core.promotion import (
    Operand,
    as_number,
    common_shape,
    constant,
    convert,
    convert_shape,
    describe,
    to_tensor,
)
from tile.language.core.static_args import compile_time, compile_time_bool
from tile.language.core.tensor import Tensor
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
        return None if number else to_tensor(build, False)
    tensor = to_tensor(build, mask, f"the mask of {name}")
    if not tensor.dtype.is_bool():
        raise CompilationError(
            f"the mask of {name} is of tl.int1, not {tensor.type}; compare it, as in mask != 0"
        )
    return tensor


def cast_to(build: Builder, x: Any, ty: Type, subject: str) -> Tensor:
    """Return `x` cast and broadcast to a type; `subject` names it in errors."""
    number = as_number(x)
    if number is not None:
        return constant(build, number, ty)
    return convert_shape(build, convert(build, to_tensor(build, x, subject), ty.element), ty.shape)


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


def check_shapes(name: str, pointer: Tensor, **arguments: Any) -> None:
    """Raise `CompilationError` if an argument does not broadcast to the shape of the pointers."""
    for parameter, x in arguments.items():
        if isinstance(x, Tensor) and common_shape(pointer.shape, x.shape) != pointer.shape:
            raise CompilationError(
                f"{name} through pointers of shape {list(pointer.shape)} takes a {parameter} of "
                "that shape, "
                f"not {list(x.shape)}"
            )


LOAD_CACHES = (CacheModifier.NONE, CacheModifier.CA, CacheModifier.CG, CacheModifier.CV)
STORE_CACHES = (
    CacheModifier.NONE,
    CacheModifier.WB,
    CacheModifier.CG,
    CacheModifier.CS,
    CacheModifier.WT,
)
EVICTIONS = {
    "": Eviction.NONE,
    "evict_normal": Eviction.NONE,
    "evict_first": Eviction.FIRST,
    "evict_last": Eviction.LAST,
}


@builtin
def load(
    build: Builder,
    pointer: Tensor,
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
    undefined without it. `cache_modifier` is "", ".ca", ".cg" or ".cv", and `eviction_policy` "",
    "evict_first" or "evict_last". They are hints: async copies to shared memory keep those that the
    target supports, and OpenCL has none. A volatile load is never merged or moved. Raises
    `CompilationError` if `pointer` is not a pointer, if `mask` or `other` is a tile and `pointer` a
    scalar, for `other` without `mask`, and for a mask that is not boolean.
    """
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
        eviction=_eviction("tl.load", eviction_policy),
        volatile=compile_time_bool(volatile, "the volatile of tl.load"),
    )
    return Tensor(loaded)


@builtin
def store(
    build: Builder,
    pointer: Tensor,
    value: Operand,
    mask: Operand | None = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write `value` at `pointer`, or a tile through a tile of pointers, where `mask` is true.

    `value` is cast to the element type; it and `mask` (`tl.int1`) are broadcast to the shape of the
    pointers. `cache_modifier` is "", ".wb", ".cg", ".cs" or ".wt". Raises `CompilationError` if
    `pointer` is not a pointer, or if the shape of `value` or `mask` does not broadcast to that of
    the pointers.
    """
    _no_boundary("tl.store", boundary_check, "")
    element = pointee("tl.store", pointer)
    guard = as_mask(build, "tl.store", mask)
    if not pointer.shape:
        check_scalar("tl.store", pointer, value=value, mask=guard)
    check_shapes("tl.store", pointer, value=value, mask=guard)
    build.op(
        ops.store,
        pointer.value,
        cast_to(build, value, with_element(pointer.type, element), "the value of tl.store").value,
        mask_operand(build, guard, pointer),
        cache=_cache("tl.store", cache_modifier, STORE_CACHES),
        eviction=_eviction("tl.store", eviction_policy),
    )


def _no_boundary(name: str, boundary_check: Any, padding_option: Any) -> None:
    if boundary_check or padding_option:
        raise CompilationError(
            f"{name} through plain pointers does not know the bounds of the array, so it "
            "takes neither "
            f"`boundary_check` nor `padding_option`; give a `mask`"
        )


def _cache(name: str, modifier: Any, allowed: tuple[CacheModifier, ...]) -> CacheModifier:
    text = compile_time(modifier, f"the cache_modifier of {name}") or ""
    for choice in allowed:
        if text in (f".{choice.value}", choice.value):
            return choice
    choices = ", ".join(f'".{choice.value}"' for choice in allowed if choice.value)
    raise CompilationError(f'the cache_modifier of {name} is "", {choices}, not {short_repr(text)}')


def _eviction(name: str, policy: Any) -> Eviction:
    text = compile_time(policy, f"the eviction_policy of {name}") or ""
    if text not in EVICTIONS:
        choices = ", ".join(f'"{choice}"' for choice in EVICTIONS)
        raise CompilationError(
            f"the eviction_policy of {name} is one of {choices}, not {short_repr(text)}"
        )
    return EVICTIONS[text]


def _update(
    build: Builder,
    kind: RMWKind,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None,
    sem: str | None,
    scope: str | None,
) -> Tensor:
    """Emit an atomic update of memory with `val`, cast and broadcast, where `mask` is true."""
    name = f"tl.atomic_{kind}"
    element = pointee(name, pointer)
    guard = as_mask(build, name, mask)
    if not pointer.shape:
        check_scalar(name, pointer, val=val, mask=guard)
    check_shapes(name, pointer, val=val, mask=guard)
    old = build(
        ops.atomic_rmw,
        pointer.value,
        cast_to(build, val, with_element(pointer.type, element), f"the val of {name}").value,
        mask_operand(build, guard, pointer),
        kind=kind,
        order=_order(name, sem),
        scope=_scope(name, scope),
    )
    return Tensor(old)


@member
def atomic_add(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Add `val` to memory atomically, and return the old value.

    Elements are int32, uint32, int64, uint64 or floats of 16 to 64 bits.
    `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type.
    Where the mask is false, memory is not changed and the result is undefined. `sem` is the memory
    order: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` is the set of threads
    with respect to which it is atomic: "cta", "gpu" (the default) or "sys". Raises
    `CompilationError` or `TypeRuleError` for other arguments.
    """
    return _update(build, RMWKind.ADD, pointer, val, mask, sem, scope)


@member
def atomic_max(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write the greater of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
    return _update(build, RMWKind.MAX, pointer, val, mask, sem, scope)


@member
def atomic_min(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write the lesser of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
    return _update(build, RMWKind.MIN, pointer, val, mask, sem, scope)


@member
def atomic_and(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `& val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    return _update(build, RMWKind.AND, pointer, val, mask, sem, scope)


@member
def atomic_or(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `| val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    return _update(build, RMWKind.OR, pointer, val, mask, sem, scope)


@member
def atomic_xor(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `^ val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    return _update(build, RMWKind.XOR, pointer, val, mask, sem, scope)


@member
def atomic_xchg(
    build: Builder,
    pointer: Tensor,
    val: Operand,
    mask: Operand | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` (32 or 64 bits wide) and return the old value; see `tl.atomic_add`."""
    return _update(build, RMWKind.XCHG, pointer, val, mask, sem, scope)


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

    Elements are 32 or 64 bits wide. `cmp` and `val` are cast to the element type and broadcast to
    the shape of `pointer`; for `sem` and `scope` see `tl.atomic_add`.
    """
    name = "tl.atomic_cas"
    result = with_element(pointer.type, pointee(name, pointer))
    if not pointer.shape:
        check_scalar(name, pointer, cmp=cmp, val=val)
    check_shapes(name, pointer, cmp=cmp, val=val)
    old = build(
        ops.atomic_cas,
        pointer.value,
        cast_to(build, cmp, result, f"the cmp of {name}").value,
        cast_to(build, val, result, f"the val of {name}").value,
        order=_order(name, sem),
        scope=_scope(name, scope),
    )
    return Tensor(old)


def _order(name: str, sem: Any) -> Order:
    text = compile_time(sem, f"the sem of {name}")
    if text is None:
        return Order.ACQ_REL
    if text not in list(Order):
        raise CompilationError(
            f"the sem of {name} is one of {_choices(Order)}, not {short_repr(text)}"
        )
    return Order(text)


def _scope(name: str, scope: Any) -> Scope:
    text = compile_time(scope, f"the scope of {name}")
    if text is None:
        return Scope.DEVICE
    if text not in list(Scope):
        raise CompilationError(
            f"the scope of {name} is one of {_choices(Scope)}, not {short_repr(text)}"
        )
    return Scope(text)


def _choices(names: type[Order] | type[Scope]) -> str:
    return ", ".join(f'"{name.value}"' for name in names)
