"""Pointer arithmetic, loads, stores and atomic operations on global memory."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from tile.ir.declare import op
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import Effect, Trait
from tile.ir.types import (
    FLOATS,
    I1,
    I32,
    INTEGERS,
    Fragment,
    Pointer,
    Scalar,
    Type,
    require,
    with_element,
)


class CacheModifier(enum.StrEnum):
    """The cache modifier of a global access: PTX's suffixes, which other targets may ignore."""

    NONE = ""
    CA = "ca"
    CG = "cg"
    CV = "cv"
    WB = "wb"
    CS = "cs"
    WT = "wt"


class Eviction(enum.StrEnum):
    """The eviction priority of the accessed cache lines."""

    NONE = ""
    FIRST = "evict_first"
    LAST = "evict_last"


class Order(enum.StrEnum):
    """The memory order of an atomic operation."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"

    @property
    def acquires(self) -> bool:
        return self in (Order.ACQUIRE, Order.ACQ_REL)

    @property
    def releases(self) -> bool:
        return self in (Order.RELEASE, Order.ACQ_REL)


class Scope(enum.StrEnum):
    """The scope of an atomic operation: the threads relative to which it is atomic."""

    PROGRAM = "cta"
    DEVICE = "gpu"
    SYSTEM = "sys"


class RMWKind(enum.StrEnum):
    """The function that an atomic read-modify-write applies to the old value and the operand."""

    ADD = "add"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    XCHG = "xchg"
    STORE = "store"  # `xchg` whose old value is unspecified, so that a target need not read it

    @property
    def exchanges(self) -> bool:
        return self in (RMWKind.XCHG, RMWKind.STORE)


# The elements on which each kind is defined. Few targets have atomics of 8 and 16 bits; the others
# compare and swap the word that contains the element.
_NUMBERS = (*INTEGERS, *FLOATS)
RMW_ELEMENTS: dict[RMWKind, tuple[Scalar, ...]] = {
    RMWKind.ADD: _NUMBERS,
    RMWKind.MAX: _NUMBERS,
    RMWKind.MIN: _NUMBERS,
    RMWKind.AND: INTEGERS,
    RMWKind.OR: INTEGERS,
    RMWKind.XOR: INTEGERS,
    RMWKind.XCHG: _NUMBERS,
    RMWKind.STORE: _NUMBERS,
}
CAS_ELEMENTS = _NUMBERS


def _names(types: tuple[Scalar, ...]) -> str:
    return ", ".join(ty.ir_name for ty in types)


def pointee(name: str, ptr: Type) -> Scalar | Pointer:
    """Return the element type that a pointer, or each pointer of a tile, points to."""
    element = ptr.element
    require(
        isinstance(element, Pointer), f"{name} takes a pointer or a tile of pointers, not {ptr}"
    )
    assert isinstance(element, Pointer)
    return element.pointee


def _masked(name: str, ptr: Type, mask: Type | None) -> None:
    booleans = with_element(ptr, I1)
    require(
        mask in (None, booleans),
        f"{name} through {ptr} takes a mask of type {booleans}, not {mask}",
    )


def _vector(name: str, ptr: Type, vector: int) -> None:
    most = ptr.count if isinstance(ptr, Fragment) else 1
    require(
        is_power_of_two(vector) and vector <= most,
        f"{name} through {ptr} takes vectors of a power of two up to {most}, not {vector}",
    )


def _addptr(ptr: Any, offset: Any, *, stride: int) -> Any:
    wide: Any = offset.astype(np.int64)
    return ptr + wide * stride


@op(
    any_extents=True,
    semantics=_addptr,
    unit_axes_broadcast=True,
    examples=(
        "%p: tile<8xptr<f32>>, %o: tile<8xi32> | "
        "%r = addptr %p, %o {stride = 4} : tile<8xptr<f32>>",
    ),
)
def addptr(ptr: Type, offset: Type, *, stride: int) -> Type:
    """Advance a pointer by `offset` elements. `stride` is the size of an element in bytes.

    The offset is extended to 64 bits, by its own signedness, before it is scaled.
    """
    element = pointee("addptr", ptr)
    require(
        offset.shape == ptr.shape and offset.element in INTEGERS,
        f"addptr on {ptr} takes an integer offset of the same shape, not {offset}",
    )
    require(stride == element.itemsize, f"{element} has {element.itemsize} bytes, not {stride}")
    return ptr


@op(effect=Effect.OUTPUT, examples=("%p: ptr<f32>, %n: i32 | prefetch %p, %n",))
def prefetch(ptr: Type, size: Type) -> None:
    """Bring `size` bytes from a pointer on to the L2 cache: a hint, which accesses nothing.

    It is `cp.async.bulk.prefetch.L2` of the PTX ISA, and nothing on other devices. Programs of a
    dependent launch do it before they wait for the launch before.
    """
    pointee("prefetch", ptr)
    require(ptr.is_ptr() and size == I32, f"prefetch takes a pointer and an i32, not {ptr}, {size}")


@op(
    any_extents=True,
    effect=Effect.READ,
    examples=(
        "%p: tile<8xptr<f32>> | %r = load %p : tile<8xf32>",
        "%p: tile<8xptr<f32>>, %m: tile<8xi1>, %o: tile<8xf32> | "
        "%r = load %p, %m, %o : tile<8xf32>",
        "%p: ptr<ptr<f32>> | %r = load %p {volatile = true} : ptr<f32>",
    ),
)
def load(
    ptr: Type,
    mask: Type | None = None,
    other: Type | None = None,
    *,
    cache: CacheModifier = CacheModifier.NONE,
    eviction: Eviction = Eviction.NONE,
    volatile: bool = False,
    invariant: bool = False,
    vector: int = 1,
) -> Type:
    """Load from global memory.

    Where the mask is false, nothing is read and the element is that of `other`, or undefined. A
    fragment is loaded in vectors of `vector` consecutive registers, which are contiguous in memory,
    aligned to the vector's size, and share one mask. Nothing writes what an `invariant` load reads
    while the kernel runs.
    """
    _vector("load", ptr, vector)
    require(
        not (volatile and invariant),
        "load is volatile or invariant, not both: a volatile one may observe other writes",
    )
    result = with_element(ptr, pointee("load", ptr))
    _masked("load", ptr, mask)
    require(
        other in (None, result),
        f"load through {ptr} takes an `other` of type {result}, not {other}",
    )
    require(other is None or mask is not None, "load takes `other` only with a mask")
    return result


@op(
    any_extents=True,
    effect=Effect.WRITE,
    examples=(
        "%p: tile<8xptr<f32>>, %v: tile<8xf32>, %m: tile<8xi1> | store %p, %v, %m",
        "%p: ptr<i32>, %v: i32 | store %p, %v",
    ),
)
def store(
    ptr: Type,
    value: Type,
    mask: Type | None = None,
    *,
    cache: CacheModifier = CacheModifier.NONE,
    eviction: Eviction = Eviction.NONE,
    vector: int = 1,
) -> None:
    """Store to global memory where the mask is true. `vector` is as for `load`."""
    _vector("store", ptr, vector)
    stored = with_element(ptr, pointee("store", ptr))
    require(value == stored, f"store through {ptr} takes a value of type {stored}, not {value}")
    _masked("store", ptr, mask)


@op(
    any_extents=True,
    traits={Trait.ATOMIC},
    effect=Effect.READ | Effect.WRITE,
    examples=(
        "%p: tile<8xptr<f32>>, %v: tile<8xf32> | %r = atomic_rmw %p, %v {kind = add} : tile<8xf32>",
        "%p: ptr<i32>, %v: i32, %m: i1 | "
        "%r = atomic_rmw %p, %v, %m {kind = xchg, order = release, scope = sys} : i32",
        "%p: ptr<f16>, %v: f16 | %r = atomic_rmw %p, %v {kind = store, order = release} : f16",
    ),
)
def atomic_rmw(
    ptr: Type,
    value: Type,
    mask: Type | None = None,
    *,
    kind: RMWKind,
    order: Order = Order.ACQ_REL,
    scope: Scope = Scope.DEVICE,
    vector: int = 1,
) -> Type:
    """Combine a value into memory atomically and return the old value.

    The result is undefined where the mask is false, and for the kind `store` everywhere.

    A fragment whose result is unused may be combined in vectors of `vector` consecutive registers,
    as for `load`. Each element is a separate atomic operation.
    """
    _vector("atomic_rmw", ptr, vector)
    element = pointee("atomic_rmw", ptr)
    result = with_element(ptr, element)
    require(value == result, f"an atomic through {ptr} takes a value of type {result}, not {value}")
    allowed = RMW_ELEMENTS[kind]
    require(
        element in allowed,
        f"atomic {kind} is not defined on {element}; it takes {_names(allowed)}",
    )
    _masked("an atomic", ptr, mask)
    return result


@op(
    any_extents=True,
    traits={Trait.ATOMIC},
    effect=Effect.READ | Effect.WRITE,
    examples=("%p: ptr<i32>, %c: i32, %v: i32 | %r = atomic_cas %p, %c, %v : i32",),
)
def atomic_cas(
    ptr: Type,
    expected: Type,
    value: Type,
    mask: Type | None = None,
    *,
    order: Order = Order.ACQ_REL,
    scope: Scope = Scope.DEVICE,
) -> Type:
    """Store `value` if memory holds the bits of `expected`, atomically.

    Return the old value (undefined if masked off).
    """
    element = pointee("atomic_cas", ptr)
    result = with_element(ptr, element)
    require(
        expected == result and value == result,
        f"atomic_cas through {ptr} takes values of type {result}, not {expected} and {value}",
    )
    require(
        element in CAS_ELEMENTS,
        f"atomic_cas is not defined on {element}; it takes {_names(CAS_ELEMENTS)}",
    )
    _masked("atomic_cas", ptr, mask)
    return result


@op(effect=Effect.SYNC, examples=("barrier",))
def barrier() -> None:
    """Synchronize all threads of the program.

    In the language, a program has one thread.
    """
