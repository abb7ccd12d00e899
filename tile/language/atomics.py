"""Atomic operations on global memory. Each returns the value that memory held before."""

from __future__ import annotations

from typing import Any

from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import memory as ops
from tile.ir.ops.memory import Order, RMWKind, Scope
from tile.ir.types import with_element
from tile.language.access import as_mask, cast_to, check_scalar, check_shapes, mask_operand, pointee
from tile.language.builtin import member
from tile.language.known import (
    compile_time,
)
from tile.language.promote import Operand
from tile.language.tensor import Tensor


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
        raise CompilationError(f"the sem of {name} is one of {_choices(Order)}, not {brief(text)}")
    return Order(text)


def _scope(name: str, scope: Any) -> Scope:
    text = compile_time(scope, f"the scope of {name}")
    if text is None:
        return Scope.DEVICE
    if text not in list(Scope):
        raise CompilationError(
            f"the scope of {name} is one of {_choices(Scope)}, not {brief(text)}"
        )
    return Scope(text)


def _choices(names: type[Order] | type[Scope]) -> str:
    return ", ".join(f'"{name.value}"' for name in names)
