"""Loads and stores through pointers."""

from __future__ import annotations

from typing import Any

from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import memory as ops
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import with_element
from tile.language.access import as_mask, cast_to, check_scalar, check_shapes, mask_operand, pointee
from tile.language.builtin import builtin
from tile.language.known import (
    compile_time,
    compile_time_bool,
)
from tile.language.promote import Operand, common_shape, convert_shape
from tile.language.tensor import Tensor

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
    raise CompilationError(f'the cache_modifier of {name} is "", {choices}, not {brief(text)}')


def _eviction(name: str, policy: Any) -> Eviction:
    text = compile_time(policy, f"the eviction_policy of {name}") or ""
    if text not in EVICTIONS:
        choices = ", ".join(f'"{choice}"' for choice in EVICTIONS)
        raise CompilationError(
            f"the eviction_policy of {name} is one of {choices}, not {brief(text)}"
        )
    return EVICTIONS[text]
