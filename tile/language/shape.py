"""Functions that give a tile another shape or its axes another order, and compute nothing."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import shape as ops
from tile.language.builtin import builtin, member
from tile.language.dtypes import spelled
from tile.language.known import (
    axis_from_right,
    compile_time_int,
    compile_time_shape_of,
)
from tile.language.promote import (
    Operand,
    broadcast_together,
    convert_shape,
    describe,
    to_tensor,
    unify,
)
from tile.language.tensor import Tensor


@member
def expand_dims(build: Builder, input: Operand, axis: Any) -> Tensor:
    """`input` with a new axis of extent 1 at each position of `axis`, an int or a tuple of ints.

    Positions count in the result, negative ones from its end. A scalar becomes a tile of one
    element. Raises `CompilationError` for a position outside the result or given twice.
    """
    x = to_tensor(build, input, "the input of tl.expand_dims")
    wanted = axis if isinstance(axis, tuple | list) else (axis,)
    rank = len(x.shape) + len(wanted)
    axes = sorted(axis_from_right(a, rank, "tl.expand_dims") for a in wanted)
    if len(set(axes)) != len(axes):
        raise CompilationError(
            f"tl.expand_dims was given one axis twice: {[a + rank for a in axes]}"
        )
    for a in axes:
        x = _insert_axis(build, x, a + rank)
    return x


def _insert_axis(build: Builder, x: Tensor, position: int) -> Tensor:
    if not x.shape:
        return convert_shape(build, x, (1,))
    return Tensor(build(ops.expand_dims, x.value, axis=position - len(x.shape) - 1))


@member
def broadcast_to(build: Builder, input: Operand, *shape: Any) -> Tensor:
    """`input` repeated to `shape`, given as one tuple or as several ints.

    A scalar takes any shape; a tile keeps its number of axes, and only extents of 1 may grow.
    Raises `CompilationError` for anything else.
    """
    x = to_tensor(build, input, "the input of tl.broadcast_to")
    extents = compile_time_shape_of(shape, "the shape of tl.broadcast_to")
    if x.shape and len(x.shape) != len(extents):
        raise CompilationError(
            f"tl.broadcast_to keeps the number of axes: {list(x.shape)} has {len(x.shape)} and "
            f"{list(extents)} has {len(extents)}; add axes first, as in x[:, None]"
        )
    return convert_shape(build, x, extents)


@builtin
def broadcast(build: Builder, input: Operand, other: Operand) -> tuple[Tensor, ...]:
    """Both inputs repeated to their common shape, by NumPy's rules; a tuple of two."""
    x = to_tensor(build, input, "the input of tl.broadcast")
    return broadcast_together(build, x, to_tensor(build, other, "the other of tl.broadcast"))


@member
def reshape(build: Builder, input: Operand, *shape: Any, can_reorder: bool = False) -> Tensor:
    """The elements of `input` in row-major order as a tile of `shape`: one tuple or several ints.

    `can_reorder` allows another order; the order is kept all the same. Raises `CompilationError` or
    `TypeRuleError` if the number of elements would change.
    """
    return _reshaped(
        build, input, compile_time_shape_of(shape, "the shape of tl.reshape"), "tl.reshape"
    )


@member
def view(build: Builder, input: Operand, *shape: Any) -> Tensor:
    """`tl.reshape` under its older name."""
    return _reshaped(build, input, compile_time_shape_of(shape, "the shape of tl.view"), "tl.view")


@member
def ravel(build: Builder, x: Operand, can_reorder: bool = False) -> Tensor:
    """The elements of `x` in row-major order as a tile of one axis."""
    tensor = to_tensor(build, x, "the input of tl.ravel")
    return _reshaped(build, tensor, (tensor.numel,), "tl.ravel")


def _reshaped(build: Builder, input: Operand, extents: tuple[int, ...], name: str) -> Tensor:
    x = to_tensor(build, input, f"the input of {name}")
    if x.shape == extents:
        return x
    if not extents:
        raise CompilationError(
            f"{name} gives a tile of at least one axis; tl.sum or tl.max make a scalar of a tile"
        )
    if not x.shape and set(extents) == {1}:
        return convert_shape(build, x, extents)
    return Tensor(build(ops.reshape, x.value, shape=extents))


@member
def trans(build: Builder, input: Tensor, *dims: Any) -> Tensor:
    """`input` with its axes in the order `dims`; without them the last two are exchanged.

    Raises `CompilationError` if `dims` is not a permutation, or is absent for fewer than two axes.
    """
    rank = len(tile_of("tl.trans", input).shape)
    if dims:
        return permute.emit(build, input, *dims)
    if rank < 2:
        raise CompilationError(f"tl.trans exchanges the last two axes, and {input.type} has {rank}")
    return Tensor(build(ops.trans, input.value, order=(*range(rank - 2), rank - 1, rank - 2)))


@member
def permute(build: Builder, input: Tensor, *dims: Any) -> Tensor:
    """`input` with its axes in the order `dims`: axis k of the result is axis `dims[k]`.

    Raises `CompilationError` if `dims` is not a permutation of the axes.
    """
    rank = len(tile_of("tl.permute", input).shape)
    given = compile_time_shape_of(dims, "the order of tl.permute")
    order = tuple(d + rank if d < 0 else d for d in given)
    if sorted(order) != list(range(rank)):
        raise CompilationError(
            f"the order of tl.permute is {given}; for {input.type} it is a permutation of "
            f"0 to {rank - 1}"
        )
    return Tensor(build(ops.trans, input.value, order=order))


@member
def squeeze(build: Builder, input: Tensor, dim: Any) -> Tensor:
    """`input` without its axis `dim`, whose extent must be 1.

    Raises `CompilationError` for another extent, and for the only axis of a tile.
    """
    shape = list(tile_of("tl.squeeze", input).shape)
    axis = axis_from_right(dim, len(shape), "tl.squeeze")
    extent = shape.pop(axis)
    if extent != 1:
        raise CompilationError(
            f"tl.squeeze removes an axis of extent 1; axis {axis + len(shape) + 1} of "
            f"{input.type} has {extent}"
        )
    return _reshaped(build, input, tuple(shape), "tl.squeeze")


@member
def unsqueeze(build: Builder, input: Operand, dim: Any) -> Tensor:
    """`input` with a new axis of extent 1 at position `dim` of the result."""
    return expand_dims.emit(build, input, compile_time_int(dim, "the dim of tl.unsqueeze"))


@member
def flip(build: Builder, x: Tensor, dim: Any = None) -> Tensor:
    """`x` with its elements along axis `dim` (None: the last) in reverse."""
    axis = last_or(dim, tile_of("tl.flip", x), "tl.flip")
    return Tensor(build(ops.flip, x.value, axis=axis))


@builtin
def join(build: Builder, a: Operand, b: Operand) -> Tensor:
    """The elements of `a` and `b` in pairs, along a new last axis of extent 2.

    Both are broadcast together and must have one type; a Python number takes that of the other.
    Two scalars give a tile of two elements. Raises `CompilationError` for two types.
    """
    x, y = _alike(build, "tl.join", a, b)
    return Tensor(build(ops.join, x.value, y.value))


@member
def split(build: Builder, a: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second elements along the last axis, whose extent must be 2.

    Raises `CompilationError` for another extent.
    """
    x = tile_of("tl.split", a)
    if x.shape[-1] != 2:
        raise CompilationError(
            f"tl.split takes a tile whose last axis has extent 2, not {x.type}; tl.reshape can "
            f"make one"
        )
    first, second = build.op(ops.split, x.value).results
    return Tensor(first), Tensor(second)


@builtin
def interleave(build: Builder, a: Operand, b: Operand) -> Tensor:
    """The elements of `a` and `b` in turns along the last axis, which is twice as long.

    Types and shapes are as in `tl.join`; two scalars give a tile of two elements.
    """
    x, y = _alike(build, "tl.interleave", a, b)
    pairs = Tensor(build(ops.join, x.value, y.value))
    extents = x.shape
    if not extents:
        return pairs
    return _reshaped(build, pairs, (*extents[:-1], 2 * extents[-1]), "tl.interleave")


@builtin
def cat(
    build: Builder, input: Tensor, other: Tensor, can_reorder: bool = False, dim: Any = 0
) -> Tensor:
    """`input` and behind it `other` along axis `dim`, which is twice as long.

    Both must have one type and shape, since extents are powers of two. `can_reorder` allows another
    order; the order is kept all the same.
    """
    x, y = tile_of("tl.cat", input), tile_of("tl.cat", other)
    if x.type != y.type:
        raise CompilationError(f"tl.cat takes two tiles of one type, not {x.type} and {y.type}")
    rank = len(x.shape)
    axis = axis_from_right(dim, rank, "tl.cat") + rank
    pairs = Tensor(build(ops.join, x.value, y.value))
    order = (*range(axis), rank, *range(axis, rank))
    extents = (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :])
    return _reshaped(build, permute.emit(build, pairs, *order), extents, "tl.cat")


def _alike(build: Builder, name: str, a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Two operands broadcast together, of one type without any conversion of runtime values."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
        raise CompilationError(
            f"{name} takes values of one type, not {spelled(a.dtype)} and {spelled(b.dtype)}; cast "
            f"one of them"
        )
    return unify(build, name, a, b)


def last_or(dim: Any, x: Tensor, name: str) -> int:
    """An axis counted from the right, the last one for None."""
    return -1 if dim is None else axis_from_right(dim, len(x.shape), name)


def tile_of(name: str, x: Any) -> Tensor:
    """`x`, which must be a tile. Raises `CompilationError` for a scalar or anything else."""
    if not isinstance(x, Tensor) or not x.shape:
        what = f"a scalar of type {x.type}" if isinstance(x, Tensor) else describe(x)
        raise CompilationError(f"{name} takes a tile, not {what}")
    return x
