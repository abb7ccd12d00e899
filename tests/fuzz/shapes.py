"""Values by the places of their elements: ramps, broadcasts, reshapes, permutations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from tests.fuzz.sizes import Shape
from tests.fuzz.writer import Writer
from tile.errors import TypeRuleError
from tile.ir.core import Value
from tile.ir.ops import arith, shape
from tile.ir.types import I32, Type, with_element, with_shape


def index_of(w: Writer, ty: Type, depth: int) -> Value:
    """Return an index as kernels compute it: a ramp along axes, scaled, shifted by the program."""
    if ty.rank == 1 and w.chance(2):
        return arange_of(w, ty, depth)
    if w.chance(3):  # an axis along which nothing varies, after all
        start = w.number(-3, 7)
        line = w.emit(shape.arange, start=start, end=start + 1)
        return along(w, line, ty.shape, w.number(0, ty.rank - 1))
    steps = [w.choose((0, 1, 2, -1, 16)) for _ in ty.shape]
    start = w.value(I32, depth) if w.chance(2) else None
    return ramps(w, ty, steps, start)


def arange_of(w: Writer, ty: Type, depth: int) -> Value:
    start = w.choose((0, 0, 1, 8, -3, 1000, I32.min_value))
    return w.emit(shape.arange, start=start, end=start + ty.shape[0])


def splat_of(w: Writer, ty: Type, depth: int) -> Value:
    return w.emit(shape.splat, w.value(ty.element, depth), shape=ty.shape)


def broadcast_of(w: Writer, ty: Type, depth: int) -> Value:
    small = tuple(1 if w.chance(2) else extent for extent in ty.shape)
    x = w.value(with_shape(small, ty.element), depth)
    return w.emit(shape.broadcast, x, shape=ty.shape)


def expand_dims_of(w: Writer, ty: Type, depth: int) -> Value:
    axis = w.choose([k for k, extent in enumerate(ty.shape) if extent == 1])
    small = (*ty.shape[:axis], *ty.shape[axis + 1 :])
    x = w.value(with_shape(small, ty.element), depth)
    return w.emit(shape.expand_dims, x, axis=axis - ty.rank)


def reshapable(w: Writer, ty: Type) -> list[Shape]:
    """Return the shapes that can be reshaped to that of a tile."""
    shapes = []
    for before in w.sizes.shapes:
        if before and math.prod(before) == math.prod(ty.shape):
            with suppress(TypeRuleError):
                shape.reshape.infer([with_shape(before, ty.element)], {"shape": ty.shape}, [])
                shapes.append(before)
    return shapes


def reshape_of(w: Writer, ty: Type, depth: int) -> Value:
    before = w.choose(reshapable(w, ty))
    x = w.value(with_shape(before, ty.element), depth)
    return w.emit(shape.reshape, x, shape=ty.shape)


def trans_of(w: Writer, ty: Type, depth: int) -> Value:
    order = permutation(w, ty.rank)
    before = tuple(ty.shape[order.index(axis)] for axis in range(ty.rank))
    return w.emit(shape.trans, w.value(with_shape(before, ty.element), depth), order=order)


def permutation(w: Writer, rank: int) -> tuple[int, ...]:
    rest, order = list(range(rank)), []
    while rest:
        order.append(rest.pop(w.pick(len(rest))))
    return tuple(order)


def ramps(w: Writer, ty: Type, steps: Sequence[int], start: Value | None) -> Value:
    """Offsets `start` + the sum of `steps[k]` * index k."""
    of = with_element(ty, I32)
    total = at(w, start, of) if start is not None else None
    for axis, step in enumerate(steps):
        if ty.shape[axis] == 1 and (total is not None or axis < ty.rank - 1):
            continue
        line = w.emit(shape.arange, start=0, end=ty.shape[axis])
        if step != 1:
            line = w.emit(arith.mul, line, w.constant(step, line.type))
        line = along(w, line, ty.shape, axis)
        total = line if total is None else w.emit(arith.add, total, line)
    return total if total is not None else w.constant(0, of)


def along(w: Writer, line: Value, dims: Shape, axis: int) -> Value:
    """A tile of rank 1 along one axis of a shape."""
    value = line
    for _ in range(axis):
        value = w.emit(shape.expand_dims, value, axis=-1 - value.type.rank)
    for _ in range(len(dims) - axis - 1):
        value = w.emit(shape.expand_dims, value, axis=-1)
    return w.emit(shape.broadcast, value, shape=dims) if value.type.shape != dims else value


def at(w: Writer, base: Value, ty: Type) -> Value:
    return w.emit(shape.splat, base, shape=ty.shape) if ty.rank else base


def flip_of(w: Writer, ty: Type, depth: int) -> Value:
    return w.emit(shape.flip, w.value(ty, depth), axis=-w.number(1, ty.rank))


def join_of(w: Writer, ty: Type, depth: int) -> Value:
    half = with_shape(ty.shape[:-1], ty.element)
    return w.emit(shape.join, w.value(half, depth), w.value(half, depth))


def split_of(w: Writer, ty: Type, depth: int) -> Value:
    pairs = w.value(with_shape((*ty.shape, 2), ty.element), depth)
    w.place()
    op = w.build.op(shape.split, pairs)
    return op.results[w.number(0, 1)]
