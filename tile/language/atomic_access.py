"""Atomic loads and stores: read-modify-writes that keep memory, or whose old value is unused."""

from __future__ import annotations

from typing import Any

from tile.ir.builder import Builder
from tile.ir.ops import arith
from tile.ir.ops import memory as ops
from tile.ir.ops.memory import Order, RMWKind, Scope
from tile.ir.types import SCALARS, Pointer
from tile.language.core.builtin import member
from tile.language.core.promotion import Operand, convert
from tile.language.core.static_args import choice
from tile.language.core.tensor import Tensor
from tile.language.memory import SCOPES, pointee, write_operands

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

    Elements are 32 or 64 bits wide. Where the mask is false, nothing is read and the result is
    undefined. `sem` is "acquire" (the default) or "relaxed"; for `scope` see `tl.atomic_add`. The
    memory must be writable, as it is written with its own value.
    """
    name = "tl.atomic_load"
    element = pointee(name, pointer)
    bits = pointer
    if element.is_floating():
        bits = convert(build, pointer, Pointer(SCALARS[f"u{element.bits}"]))
    operands = write_operands(build, name, bits, mask, val=0)
    attributes = _ordering(name, sem, scope, LOAD_ORDERS, Order.ACQUIRE)
    loaded = Tensor(build(ops.atomic_rmw, *operands, kind=RMWKind.OR, **attributes))
    if element.is_floating():
        return Tensor(build(arith.bitcast, loaded.value, to=element))
    return loaded


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

    Elements are 32 or 64 bits wide; `val` and `mask` are as in `tl.atomic_add`. `sem` is "release"
    (the default) or "relaxed"; for `scope` see `tl.atomic_add`.
    """
    name = "tl.atomic_store"
    operands = write_operands(build, name, pointer, mask, val=val)
    attributes = _ordering(name, sem, scope, STORE_ORDERS, Order.RELEASE)
    build.op(ops.atomic_rmw, *operands, kind=RMWKind.XCHG, **attributes)


def _ordering(
    name: str, sem: Any, scope: Any, orders: dict[str, Order], default: Order
) -> dict[str, Any]:
    """Return the memory order and the scope, as attributes."""
    return {
        "order": choice(sem, f"the sem of {name}", orders, default.value),
        "scope": choice(scope, f"the scope of {name}", SCOPES, Scope.DEVICE),
    }
