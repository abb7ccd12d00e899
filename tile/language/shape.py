"""Shape manipulation: functions that change the shape or the order of axes of a tile."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.extents import is_power_of_two
from tile.ir.ops import shape as ops
from tile.language.base.builtin import builtin, member
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import (
    Operand,
    broadcast_together,
    convert_shape,
    describe,
    to_tensor,
    unify,
)
from tile.language.base.static_args import axis_from_right, compile_time_int, compile_time_shape_of
from tile.language.base.tensor import Tensor
from tile.language.slices import split_last


@member
def expand_dims(build: Builder, input: Operand, axis: Any) -> Tensor:
    """Insert an axis of extent 1 at each position of `axis`, an int or a tuple of ints.

    Positions are those of the result; negative ones count from its end. A scalar becomes a tile of
    one element. Raises `CompilationError` for a position outside the result or a repeated one.
    """
    x = to_tensor(build, input, "the input of tl.expand_dims")
    items = axis if isinstance(axis, tuple | list) else (axis,)
    rank = len(x.shape) + len(items)
    positions = sorted(axis_from_right(a, rank, "tl.expand_dims") for a in items)
    if len(set(positions)) != len(positions):
        raise CompilationError(
            f"tl.expand_dims was given one axis twice: {[a + rank for a in positions]}"
        )
    for a in positions:
        x = _insert_axis(build, x, a + rank)
    return x


def _insert_axis(build: Builder, x: Tensor, position: int) -> Tensor:
    if not x.shape:
        return convert_shape(build, x, (1,))
    return Tensor(build(ops.expand_dims, x.value, axis=position - len(x.shape) - 1))


@member
def broadcast_to(build: Builder, input: Operand, *shape: Any) -> Tensor:
    """Broadcast `input` to `shape`, one tuple or several ints.

    A scalar broadcasts to any shape; a tile keeps its rank, and only extents of 1 may grow. Raises
    `CompilationError` for anything else.
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
    """Broadcast both inputs to their common shape, by NumPy's rules; the result is a pair."""
    x = to_tensor(build, input, "the input of tl.broadcast")
    return broadcast_together(build, x, to_tensor(build, other, "the other of tl.broadcast"))


@member
def reshape(build: Builder, input: Operand, *shape: Any, can_reorder: bool = False) -> Tensor:
    """Reshape `input` to `shape`, one tuple or several ints, in row-major order.

    `can_reorder` permits another order, but the order is always preserved. Raises
    `CompilationError` or `TypeRuleError` if the number of elements would change, and
    `TypeRuleError` if axes are merged or split of which another than the first has an extent that
    is no power of two.
    """
    return _reshaped(
        build, input, compile_time_shape_of(shape, "the shape of tl.reshape"), "tl.reshape"
    )


@member
def view(build: Builder, input: Operand, *shape: Any) -> Tensor:
    """The older name of `tl.reshape`."""
    return _reshaped(build, input, compile_time_shape_of(shape, "the shape of tl.view"), "tl.view")


@member
def ravel(build: Builder, x: Operand, can_reorder: bool = False) -> Tensor:
    """Flatten `x` to a tile of one axis, in row-major order."""
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
    """Permute the axes of `input` to the order `dims`; without `dims`, swap the last two.

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
    """Permute the axes of `input`: axis k of the result is axis `dims[k]`.

    Raises `CompilationError` if `dims` is not a permutation of the axes.
    """
    rank = len(tile_of("tl.permute", input).shape)
    axes = compile_time_shape_of(dims, "the order of tl.permute")
    order = tuple(d + rank if d < 0 else d for d in axes)
    if sorted(order) != list(range(rank)):
        raise CompilationError(
            f"the order of tl.permute is {axes}; for {input.type} it is a permutation of "
            f"0 to {rank - 1}"
        )
    return Tensor(build(ops.trans, input.value, order=order))


@member
def squeeze(build: Builder, x: Tensor, dim: Any) -> Tensor:
    """Remove axis `dim` of `x`, whose extent must be 1.

    Raises `CompilationError` for another extent, and for the only axis of a tile.
    """
    shape = list(tile_of("tl.squeeze", x).shape)
    axis = axis_from_right(dim, len(shape), "tl.squeeze")
    extent = shape.pop(axis)
    if extent != 1:
        raise CompilationError(
            f"tl.squeeze removes an axis of extent 1; axis {axis + len(shape) + 1} of "
            f"{x.type} has {extent}"
        )
    return _reshaped(build, x, tuple(shape), "tl.squeeze")


@member
def unsqueeze(build: Builder, x: Operand, dim: Any) -> Tensor:
    """Insert an axis of extent 1 at position `dim` of the result."""
    return expand_dims.emit(build, x, compile_time_int(dim, "the dim of tl.unsqueeze"))


@member
def flip(build: Builder, x: Tensor, dim: Any = None) -> Tensor:
    """Reverse the elements of `x` along axis `dim` (None: the last)."""
    axis = last_or(dim, tile_of("tl.flip", x), "tl.flip")
    return Tensor(build(ops.flip, x.value, axis=axis))


@builtin
def join(build: Builder, a: Operand, b: Operand) -> Tensor:
    """Join `a` and `b` along a new last axis of extent 2.

    Both are broadcast together and must have one type; a Python number takes the type of the other
    operand. Two scalars give a tile of two elements. Raises `CompilationError` for two types.
    """
    x, y = _alike(build, "tl.join", a, b)
    return Tensor(build(ops.join, x.value, y.value))


@member
def split(build: Builder, a: Tensor) -> tuple[Tensor, ...]:
    """Split a tile along the last axis into as many tiles as it has elements, at least two.

    A last axis of extent 2 gives a pair, the inverse of `tl.join`, and one of extent 4 four tiles:
    `a, b, c, d = tl.split(x)` are `x[..., 0]` to `x[..., 3]`. A tile of one axis gives scalars.
    Raises `CompilationError` if the last axis has extent 1, or one that is no power of two.
    """
    x = tile_of("tl.split", a)
    if x.shape[-1] == 1:
        raise CompilationError(
            f"tl.split takes a tile whose last axis has extent 2 or more, not {x.type}; tl.reshape "
            f"can make one"
        )
    if not is_power_of_two(x.shape[-1]):
        raise CompilationError(
            f"tl.split halves the last axis, whose extent is a power of two, and {x.type} has an "
            f"extent of {x.shape[-1]}; x[..., 0] takes one element"
        )
    return tuple(map(Tensor, split_last(build, x.value)))


@builtin
def interleave(build: Builder, a: Operand, b: Operand) -> Tensor:
    """Interleave the elements of `a` and `b` along the last axis, which is twice as long.

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
    """Concatenate `input` and `other` along axis `dim`, which is twice as long.

    Both must have one type and shape. `can_reorder` permits another order, but the order is always
    preserved.
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
    """Return two operands broadcast together; runtime values must already have one type."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype:
        raise CompilationError(
            f"{name} takes values of one type, not {spelled(a.dtype)} and {spelled(b.dtype)}; cast "
            f"one of them"
        )
    return unify(build, name, a, b)


def last_or(dim: Any, x: Tensor, name: str) -> int:
    """Return an axis counted from the right; the last one for None."""
    return -1 if dim is None else axis_from_right(dim, len(x.shape), name)


def tile_of(name: str, x: Any) -> Tensor:
    """Return `x`, which must be a tile; raise `CompilationError` for anything else."""
    if not isinstance(x, Tensor) or not x.shape:
        subject = f"a scalar of type {x.type}" if isinstance(x, Tensor) else describe(x)
        raise CompilationError(f"{name} takes a tile, not {subject}")
    return x
