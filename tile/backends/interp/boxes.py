"""What operations on descriptors do: boxes of an array read and written within its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tile.backends.interp import atomics
from tile.backends.interp.affine import ADDRESS
from tile.backends.interp.code import Rules, Run, pure
from tile.backends.interp.memory import FaultError
from tile.backends.interp.report import out_of_bounds
from tile.backends.interp.rules import update
from tile.backends.interp.thread.declare import rule_in
from tile.backends.interp.values import Affine, Array, RunValue, array_of, full
from tile.backends.interp.wave import Wave
from tile.errors import ExecutionError, OutOfBoundsError
from tile.ir import numerics
from tile.ir.core import Operation
from tile.ir.ops import descriptor
from tile.ir.types import Descriptor, Padding

RULES: Rules = {}
rule = rule_in(RULES)


@rule(descriptor.make_descriptor)
def make(op: Operation) -> Run:
    ty = op.result.type
    assert isinstance(ty, Descriptor)
    combine = pure(op)

    def run(wave: Wave, *parts: RunValue) -> Array:
        made: Array = combine(wave, *parts)
        _check(wave, ty, made)
        return made

    return run


def _check(wave: Wave, ty: Descriptor, made: Array) -> None:
    """Refuse an address or strides that no descriptor has."""
    rank, size, wanted = len(ty.dims), ty.of.itemsize, ty.ALIGNMENT
    for column, scale in ((0, 1), *((1 + rank + axis, size) for axis in range(rank - 1))):
        numbers = made[:, column] * scale
        wrong = numbers % wanted != 0
        if wrong.any():
            row = int(wrong.argmax())
            what = f"stride along axis {column - rank - 1}" if column else "address"
            raise ExecutionError(
                f"`{wave.launch.name}` makes a descriptor {ty} whose {what} is {numbers[row]} "
                f"bytes; it must be a multiple of {wanted}",
                notes=[wave.launch.element((), int(wave.rows[row]))],
            )


@rule(descriptor.descriptor_load)
def load(op: Operation) -> Run:
    def run(wave: Wave, desc: Array, *offsets: RunValue) -> Array:
        return _read(wave, op, desc, _lines(op, offsets))

    return run


@rule(descriptor.descriptor_gather)
def gather(op: Operation) -> Run:
    def run(wave: Wave, desc: Array, rows: RunValue, column: RunValue) -> Array:
        return _read(wave, op, desc, _rows(op, rows, column))

    return run


@rule(descriptor.descriptor_store)
def store(op: Operation) -> Run:
    def run(wave: Wave, desc: Array, value: RunValue, *offsets: RunValue) -> None:
        _write(wave, op, desc, value, _lines(op, offsets))

    return run


@rule(descriptor.descriptor_scatter)
def scatter(op: Operation) -> Run:
    def run(wave: Wave, desc: Array, value: RunValue, rows: RunValue, column: RunValue) -> None:
        _write(wave, op, desc, value, _rows(op, rows, column))

    return run


@rule(descriptor.descriptor_atomic)
def atomic(op: Operation) -> Run:
    ty = _type(op)

    def apply(flat: Array, index: Array, value: Array) -> None:
        atomics.update(flat, index, value, op["kind"])

    def run(wave: Wave, desc: Array, value: RunValue, *offsets: RunValue) -> None:
        address, mask = _box(ty, desc, _lines(op, offsets), ty.dims)
        try:
            update(wave, ty.of, ty.dims, apply, address, mask, value)
        except OutOfBoundsError as error:
            raise _claimed(error, ty) from None

    return run


def _type(op: Operation) -> Descriptor:
    ty = op.inputs[0].type
    assert isinstance(ty, Descriptor)
    return ty


# The indices of a box along one axis: where it starts in each program, and a line of indices from
# there, which is None for as many as follow each other.
Line = tuple[Array, Array | None]


def _lines(op: Operation, offsets: Sequence[RunValue]) -> list[Line]:
    return [(array_of(offset).astype(np.int64), None) for offset in offsets]


def _rows(op: Operation, rows: RunValue, column: RunValue) -> list[Line]:
    indices = full(rows, op["rows"].type.shape).astype(np.int64)
    return [(np.zeros(1, np.int64), indices), (array_of(column).astype(np.int64), None)]


def _read(wave: Wave, op: Operation, desc: Array, lines: Sequence[Line]) -> Array:
    ty, shape = _type(op), op.result.type.shape
    outside = 0 if ty.padding is Padding.ZERO else math.nan
    other = numerics.constant(outside, ty.of).reshape((1,) * (1 + len(shape)))
    address, mask = _box(ty, desc, lines, shape)
    try:
        return wave.launch.memory.load(address, mask, other, ty.of, shape)
    except FaultError as fault:
        raise _claimed(out_of_bounds(wave, "reads", fault, ty.of.itemsize), ty) from None


def _write(wave: Wave, op: Operation, desc: Array, value: RunValue, lines: Sequence[Line]) -> None:
    ty, shape = _type(op), op["value"].type.shape
    address, mask = _box(ty, desc, lines, shape)
    try:
        wave.launch.memory.store(address, array_of(value), mask, ty.of, shape)
    except FaultError as fault:
        raise _claimed(out_of_bounds(wave, "writes", fault, ty.of.itemsize), ty) from None


def _claimed(error: ExecutionError, ty: Descriptor) -> ExecutionError:
    """The error for an element that is inside the descriptor's bounds and outside the array."""
    error.notes.append(f"it is inside the bounds of the descriptor {ty}, which are wrong")
    return error


def _box(
    ty: Descriptor, desc: Array, lines: Sequence[Line], dims: tuple[int, ...]
) -> tuple[RunValue, Array | None]:
    """The addresses of a box, and which of its elements are inside; None for all of them."""
    rank, size = len(dims), ty.of.itemsize
    base: Array = desc[:, 0].reshape((-1,) + (1,) * rank)
    steps: list[int] = []
    mask: Array | None = None
    for axis, (start, line) in enumerate(lines):
        extent = desc[:, 1 + axis]
        stride = desc[:, 1 + rank + axis] * size if axis < rank - 1 else np.full(1, size)
        base = base + (start * stride).reshape((-1,) + (1,) * rank)
        uniform = bool((stride == stride[0]).all())
        if line is None and uniform:
            steps.append(int(stride[0]))
        else:
            indices = np.arange(dims[axis])[None] if line is None else line
            base = base + _along(indices * stride[:, None], axis, rank)
            steps.append(0)
        inside = _inside(start, line, extent, dims[axis])
        if inside is not None:
            inside = _along(inside, axis, rank)
            mask = inside if mask is None else mask & inside
    return Affine(base, tuple(steps), dims, ADDRESS), mask


def _inside(start: Array, line: Array | None, extent: Array, count: int) -> Array | None:
    """Which indices along one axis are inside the array; None for all of them."""
    if line is None:
        if ((start >= 0) & (start + count <= extent)).all():
            return None
        line = np.arange(count)[None]
    index = start[:, None] + line
    inside: Array = (index >= 0) & (index < extent[:, None])
    return None if inside.all() else inside


def _along(values: Array, axis: int, rank: int) -> Array:
    """Values of programs along one axis of a box, for all of its axes."""
    programs, *extent = values.shape
    return values.reshape((programs, *[1] * axis, *extent, *[1] * (rank - axis - 1)))
