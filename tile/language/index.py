"""Functions in which values decide which element goes where."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import index as ops
from tile.ir.types import I32, I64, U32, Pointer
from tile.language.access import as_mask
from tile.language.builtin import builtin, member
from tile.language.dtypes import spelled
from tile.language.known import (
    axis_from_right,
    compile_time_bool,
    compile_time_int,
)
from tile.language.promote import Operand, convert, convert_shape
from tile.language.shape import last_or, ravel, tile_of
from tile.language.tensor import Tensor


@member
def gather(build: Builder, src: Tensor, index: Tensor, axis: Any) -> Tensor:
    """The elements of `src` at positions `index` along `axis`, as `numpy.take_along_axis`.

    `index` is a tile of integers with as many axes as `src` and the same extents, but for `axis`;
    the result has its shape. What a position outside 0 to extent - 1 gives is not defined. Raises
    `CompilationError` or `TypeRuleError` for anything else.
    """
    x, places = tile_of("tl.gather", src), tile_of("tl.gather", index)
    if isinstance(places.dtype, Pointer) or not places.dtype.is_int():
        raise CompilationError(f"the index of tl.gather is a tile of integers, not {places.type}")
    if places.dtype not in (I32, I64):
        wide = places.dtype.bits == 64 or places.dtype is U32
        places = convert(build, places, I64 if wide else I32)
    along = axis_from_right(axis, len(x.shape), "tl.gather")
    return Tensor(build(ops.gather, x.value, places.value, axis=along))


@member
def histogram(build: Builder, input: Tensor, num_bins: Any, mask: Operand | None = None) -> Tensor:
    """How often each of 0 to `num_bins` - 1 is an element of `input`, as an int32 tile.

    `num_bins` is a compile-time power of two, `input` a tile of integers with any axes, and `mask`,
    broadcast to its shape, says which elements count. Those outside the bins count nowhere. Raises
    `CompilationError` or `TypeRuleError` for anything else.
    """
    x = tile_of("tl.histogram", input)
    if isinstance(x.dtype, Pointer) or not x.dtype.is_int():
        raise CompilationError(f"tl.histogram counts integers, not {spelled(x.dtype)}")
    bins = compile_time_int(num_bins, "the num_bins of tl.histogram")
    counted = as_mask(build, "tl.histogram", mask)
    if counted is not None:
        counted = ravel.emit(build, convert_shape(build, counted, x.shape))
    flat = ravel.emit(build, convert(build, x, I32) if x.dtype.is_bool() else x)
    masks = () if counted is None else (counted.value,)
    return Tensor(build(ops.histogram, flat.value, *masks, bins=bins))


@member
def sort(build: Builder, x: Tensor, dim: Any = None, descending: bool = False) -> Tensor:
    """`x` with its elements along axis `dim` (None: the last) in ascending or descending order.

    A NaN counts as greater than every number. Which of equal elements comes first, of the two zeros
    too, is not defined.
    """
    return _sorted(build, "tl.sort", x, dim, descending, None)


@builtin
def topk(build: Builder, x: Tensor, k: Any, dim: Any = None) -> Tensor:
    """The `k` greatest elements along axis `dim` (None: the last), the greatest first.

    `k` is a compile-time power of two. NaNs are as in `tl.sort`: greatest of all.
    """
    count = compile_time_int(k, "the k of tl.topk")
    return _sorted(build, "tl.topk", x, dim, True, count)


def _sorted(
    build: Builder, name: str, x: Tensor, dim: Any, descending: Any, count: int | None
) -> Tensor:
    tile = tile_of(name, x)
    axis = last_or(dim, tile, name)
    if tile.dtype not in ops.SORTED:
        raise CompilationError(f"{name} is not defined on {spelled(tile.dtype)}")
    extent = tile.shape[axis]
    if count is not None and not 0 < count <= extent:
        raise CompilationError(f"the k of {name} is 1 to {extent} for {tile.type}, not {count}")
    falling = compile_time_bool(descending, f"the descending of {name}")
    return Tensor(build(ops.sort, tile.value, axis=axis, descending=falling, count=count))
