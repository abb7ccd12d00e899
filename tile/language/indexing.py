"""Data-dependent indexing: gather, scatter, histogram, rank and sort."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import indexing as ops
from tile.ir.types import I32, I64, U32, Pointer
from tile.language.base.builtin import builtin, member
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import Operand, convert, convert_shape
from tile.language.base.static_args import (
    axis_from_right,
    compile_time_bool,
    compile_time_int,
    constant_value,
)
from tile.language.base.tensor import Tensor
from tile.language.memory import as_mask
from tile.language.shape import last_or, ravel, tile_of
from tile.language.tables import lookup


@member
def gather(
    build: Builder, src: Tensor | tuple[Any, ...], index: Tensor, axis: Any = None
) -> Tensor:
    """The elements of `src` at positions `index` along `axis`, like `numpy.take_along_axis`.

    `index` is a tile of integers with as many axes as `src` and the same extents except along
    `axis`; the result has its shape. The result of an index outside 0 to extent - 1 is undefined.
    `src` may also be a table, a compile-time array with one axis: `tl.gather(TABLE, index)` is
    `TABLE[index]`. Raises `CompilationError` or `TypeRuleError` for anything else.
    """
    if isinstance(src, tuple):
        return _gather_entries(build, src, index, axis)
    x, indices = tile_of("tl.gather", src), tile_of("tl.gather", index)
    if isinstance(indices.dtype, Pointer) or not indices.dtype.is_int():
        raise CompilationError(f"the index of tl.gather is a tile of integers, not {indices.type}")
    if indices.dtype not in (I32, I64):
        wide = indices.dtype.bits == 64 or indices.dtype is U32
        indices = convert(build, indices, I64 if wide else I32)
    along = axis_from_right(axis, len(x.shape), "tl.gather")
    return Tensor(build(ops.gather, x.value, indices.value, axis=along))


def _gather_entries(build: Builder, table: tuple[Any, ...], index: Any, axis: Any) -> Tensor:
    """Return the entries of a table with one axis."""
    if axis is not None and constant_value(axis) not in (0, -1):
        raise CompilationError("a table has one axis, so the axis of tl.gather is 0 or left out")
    return lookup(build, table, index)


@member
def histogram(build: Builder, input: Tensor, num_bins: Any, mask: Operand | None = None) -> Tensor:
    """The number of occurrences of each of 0 to `num_bins` - 1 in `input`, as an int32 tile.

    `num_bins` is a compile-time integer, `input` a tile of integers of any rank, and `mask`,
    broadcast to its shape, selects the elements that are counted. Values outside the bins are
    ignored. Raises `CompilationError` or `TypeRuleError` for anything else.
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


@builtin
def rank(build: Builder, x: Tensor, num_bins: Any) -> Tensor:
    """The position that each element of `x` would have if the tile was sorted, as an int32 tile.

    Elements are integers from 0 to `num_bins` - 1, a compile-time integer, in a tile of one axis;
    for others the result is undefined. Equal elements keep their order, so
    `tl.scatter(y, tl.rank(digit, 256))` is a step of a radix sort.
    """
    numbers = _of_one_axis("tl.rank", x)
    if isinstance(numbers.dtype, Pointer) or not numbers.dtype.is_int():
        raise CompilationError(f"tl.rank takes integers, not {spelled(numbers.dtype)}")
    bins = compile_time_int(num_bins, "the num_bins of tl.rank")
    return Tensor(build(ops.rank, convert(build, numbers, I32).value, bins=bins))


@builtin
def scatter(build: Builder, src: Tensor, index: Tensor, axis: Any = None) -> Tensor:
    """Move the elements of `src` to positions `index` along `axis` (None: the last).

    `index` is a tile of integers of the shape of `src`, which has each position of the axis once;
    otherwise the result is undefined. It is the inverse of `tl.gather`:
    `tl.gather(tl.scatter(x, i), i)` is `x`. Raises `CompilationError` or `TypeRuleError` for
    anything else.
    """
    x, positions = tile_of("tl.scatter", src), tile_of("tl.scatter", index)
    if isinstance(positions.dtype, Pointer) or not positions.dtype.is_int():
        raise CompilationError(
            f"the index of tl.scatter is a tile of integers, not {positions.type}"
        )
    along = last_or(axis, x, "tl.scatter")
    moved = convert(build, positions, I32)
    return Tensor(build(ops.scatter, x.value, moved.value, axis=along))


def _of_one_axis(name: str, x: Tensor) -> Tensor:
    tile = tile_of(name, x)
    if len(tile.shape) != 1:
        raise CompilationError(f"{name} takes a tile of one axis, not {tile.type}")
    return tile


@member
def sort(build: Builder, x: Tensor, dim: Any = None, descending: bool = False) -> Tensor:
    """Sort the elements of `x` along axis `dim` (None: the last), ascending or descending.

    NaN sorts as greater than every number. The sort is not stable, and the order of the two zeros
    is not defined.
    """
    return _sorted(build, "tl.sort", x, dim, descending, None)


@builtin
def bitonic_merge(build: Builder, x: Tensor, dim: Any = None, descending: bool = False) -> Tensor:
    """Sort a bitonic sequence along axis `dim` (None: the last), ascending or descending.

    The elements rise and then fall, or are a rotation of such a sequence. NaN is the greatest
    element. The result is that of `tl.sort`.
    """
    return _sorted(build, "tl.bitonic_merge", x, dim, descending, None)


@builtin
def topk(build: Builder, x: Tensor, k: Any, dim: Any = None, descending: bool = True) -> Tensor:
    """The `k` greatest elements along axis `dim` (None: the last), in descending order.

    If `descending` is false, the `k` least, in ascending order. `k` is a compile-time integer. NaN
    is the greatest element, as in `tl.sort`.
    """
    count = compile_time_int(k, "the k of tl.topk")
    return _sorted(build, "tl.topk", x, dim, descending, count)


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
