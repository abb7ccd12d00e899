"""Reductions and scans along an axis of a tile.

`axis` is a compile-time int; a negative one counts from the last axis. With axis None, where
allowed, all elements are reduced. `keep_dims` keeps the reduced axes with extent 1.
"""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import reduce as ops
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.types import BF16, F32, I32, U32, Pointer, Scalar
from tile.language.builtin import member
from tile.language.creation import element_type
from tile.language.dtypes import spelled
from tile.language.known import (
    axis_from_right,
    compile_time_bool,
)
from tile.language.promote import convert
from tile.language.shape import expand_dims, ravel, tile_of
from tile.language.tensor import Tensor


@member
def sum(
    build: Builder, input: Tensor, axis: Any = None, keep_dims: bool = False, dtype: Any = None
) -> Tensor:
    """The sum along `axis`, computed in `dtype` if given.

    Otherwise narrow integers are summed in int32 or uint32 according to their signedness, booleans
    in int32, and every other type in its own type. Use `dtype=tl.float32` for float16 and bfloat16.
    The order of additions is not defined.
    """
    x = numbers("tl.sum", input)
    return _reduced(
        build, "tl.sum", _summed(build, x, dtype, "tl.sum"), axis, keep_dims, ReduceKind.SUM
    )


@member
def max(
    build: Builder,
    input: Tensor,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The greatest element along `axis`, ignoring NaN; with its index if `return_indices`.

    Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
    equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
    is false.
    """
    return _greatest(
        build, ArgKind.MAX, input, axis, return_indices, return_indices_tie_break_left, keep_dims
    )


@member
def min(
    build: Builder,
    input: Tensor,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The least element along `axis`, ignoring NaN; with its index if `return_indices`.

    Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
    equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
    is false.
    """
    return _greatest(
        build, ArgKind.MIN, input, axis, return_indices, return_indices_tie_break_left, keep_dims
    )


@member
def argmax(
    build: Builder, input: Tensor, axis: Any, tie_break_left: bool = True, keep_dims: bool = False
) -> Tensor:
    """The int32 index of the greatest element along `axis`; the lowest one if `tie_break_left`."""
    return _located(build, "tl.argmax", ArgKind.MAX, input, axis, tie_break_left, keep_dims)[1]


@member
def argmin(
    build: Builder, input: Tensor, axis: Any, tie_break_left: bool = True, keep_dims: bool = False
) -> Tensor:
    """The int32 index of the least element along `axis`; the lowest one if `tie_break_left`."""
    return _located(build, "tl.argmin", ArgKind.MIN, input, axis, tie_break_left, keep_dims)[1]


@member
def xor_sum(build: Builder, input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The bitwise exclusive or of integers along `axis`, in their own type."""
    x = _integers("tl.xor_sum", input)
    return _reduced(build, "tl.xor_sum", x, axis, keep_dims, ReduceKind.XOR)


@member
def reduce_or(build: Builder, input: Tensor, axis: Any, keep_dims: bool = False) -> Tensor:
    """The bitwise or of integers along `axis`; for booleans, true if any element is."""
    x = _integers("tl.reduce_or", input)
    return _reduced(build, "tl.reduce_or", x, axis, keep_dims, ReduceKind.OR)


@member
def cumsum(
    build: Builder, input: Tensor, axis: Any = 0, reverse: bool = False, dtype: Any = None
) -> Tensor:
    """The inclusive prefix sum along `axis`, or the suffix sum if `reverse`.

    Computed in `dtype` if given, else in the type that `tl.sum` uses, and float32 for bfloat16.
    """
    x = _summed(build, _scannable(build, "tl.cumsum", input), dtype, "tl.cumsum")
    return _scanned(build, "tl.cumsum", x, axis, reverse, ReduceKind.SUM)


@member
def cumprod(build: Builder, input: Tensor, axis: Any = 0, reverse: bool = False) -> Tensor:
    """The inclusive prefix product along `axis`, or the suffix product if `reverse`.

    Integers keep their type and wrap; bfloat16 is computed and returned as float32.
    """
    x = _scannable(build, "tl.cumprod", input)
    return _scanned(build, "tl.cumprod", x, axis, reverse, ReduceKind.PROD)


def numbers(name: str, x: Any) -> Tensor:
    """Return the input of a reduction: a tile of numbers on which arithmetic is defined."""
    tile = tile_of(name, x)
    if isinstance(tile.dtype, Pointer) or tile.dtype.is_fp8():
        raise CompilationError(
            f"{name} is not defined on {spelled(tile.dtype)}"
            + ("; cast first: x.to(tl.float32)" if tile.dtype.is_fp8() else "")
        )
    return tile


def _integers(name: str, x: Any) -> Tensor:
    tile = numbers(name, x)
    if not tile.dtype.is_int():
        raise CompilationError(f"{name} combines the bits of integers, not of {tile.type}")
    return tile


def to_reduce(build: Builder, name: str, x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Return the tile to reduce and its axis; for axis None, the tile is flattened."""
    if axis is None:
        return ravel.emit(build, x), -1
    return x, axis_from_right(axis, len(x.shape), name)


def keep_axes(
    build: Builder, name: str, result: Tensor, x: Tensor, axis: Any, keep_dims: Any
) -> Tensor:
    """Return the result, with the reduced axes of extent 1 inserted if `keep_dims`."""
    if not compile_time_bool(keep_dims, f"the keep_dims of {name}"):
        return result
    rank = len(x.shape)
    axes = tuple(range(rank)) if axis is None else axis_from_right(axis, rank, name)
    return expand_dims.emit(build, result, axes)


def _reduced(
    build: Builder, name: str, x: Tensor, axis: Any, keep_dims: Any, kind: ReduceKind
) -> Tensor:
    flat, along = to_reduce(build, name, x, axis)
    result = Tensor(build(ops.reduce, flat.value, axis=along, kind=kind))
    return keep_axes(build, name, result, x, axis, keep_dims)


def _located(
    build: Builder, name: str, kind: ArgKind, input: Any, axis: Any, left: Any, keep_dims: Any
) -> tuple[Tensor, Tensor]:
    """Return the greatest or least element and its index."""
    x = _scannable(build, name, input)
    x = convert(build, x, I32) if x.dtype.is_bool() else x
    flat, along = to_reduce(build, name, x, axis)
    ties = compile_time_bool(left, f"the tie_break_left of {name}")
    op = build.op(ops.arg_reduce, flat.value, axis=along, kind=kind, tie_break_left=ties)
    value, index = (keep_axes(build, name, Tensor(v), x, axis, keep_dims) for v in op.results)
    return value, index


def _greatest(
    build: Builder, kind: ArgKind, input: Any, axis: Any, indices: Any, left: Any, keep_dims: Any
) -> Tensor | tuple[Tensor, Tensor]:
    name = f"tl.{kind}"
    if compile_time_bool(indices, f"the return_indices of {name}"):
        return _located(build, name, kind, input, axis, left, keep_dims)
    x = numbers(name, input)
    if x.dtype.bits < 32:
        x = convert(build, x, F32 if x.dtype.is_floating() else I32)
    return _reduced(build, name, x, axis, keep_dims, ReduceKind(kind.value))


def _scannable(build: Builder, name: str, input: Any) -> Tensor:
    """Return the input of a scan, with bfloat16 cast to float32."""
    x = numbers(name, input)
    return convert(build, x, F32) if x.dtype is BF16 else x


def _scanned(
    build: Builder, name: str, x: Tensor, axis: Any, reverse: Any, kind: ReduceKind
) -> Tensor:
    along = axis_from_right(axis, len(x.shape), name)
    backwards = compile_time_bool(reverse, f"the reverse of {name}")
    return Tensor(build(ops.scan, x.value, axis=along, kind=kind, reverse=backwards))


def _summed(build: Builder, x: Tensor, dtype: Any, name: str) -> Tensor:
    """Return the input of a sum, cast to the type in which it is summed."""
    if dtype is not None:
        return convert(build, x, element_type(dtype, name))
    element = x.dtype
    if isinstance(element, Scalar) and element.is_int() and element.bits < 32:
        return convert(build, x, U32 if element.is_int_unsigned() else I32)
    return x
