"""Rules of descriptor operations: blocks of an array, read and written within its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tile.backends.interp import rules
from tile.backends.interp.bytecode import Run
from tile.backends.interp.fault_report import out_of_bounds
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.rules import update
from tile.backends.interp.translate import Rules, pure, rule_in
from tile.backends.interp.values import ADDRESS, Affine, Array, RunValue, array_of, full
from tile.backends.interp.virtual_memory import FaultError
from tile.errors import ExecutionError, OutOfBoundsError
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.ops import descriptor
from tile.ir.types import Descriptor, Padding

RULES: Rules = {}
rule = rule_in(RULES)


@rule(descriptor.make_tensor_descriptor)
def make(op: Operation) -> Run:
    ty = op.result.type
    assert isinstance(ty, Descriptor)
    combine = pure(op)

    def run(batch: ProgramBatch, *parts: RunValue) -> Array:
        descriptors: Array = combine(batch, *parts)
        _check(batch, ty, descriptors)
        return descriptors

    return run


def _check(batch: ProgramBatch, ty: Descriptor, descriptors: Array) -> None:
    """Raise `ExecutionError` for an address or strides that a descriptor cannot have."""
    rank, size, alignment = len(ty.dims), ty.of.itemsize, ty.ALIGNMENT
    for column, scale in ((0, 1), *((1 + rank + axis, size) for axis in range(rank - 1))):
        numbers = descriptors[:, column] * scale
        wrong = numbers % alignment != 0
        if wrong.any():
            row = int(wrong.argmax())
            field = f"stride along axis {column - rank - 1}" if column else "address"
            raise ExecutionError(
                f"`{batch.launch.name}` makes a descriptor {ty} whose {field} is {numbers[row]} "
                f"bytes; it must be a multiple of {alignment}",
                notes=[batch.launch.element((), int(batch.rows[row]))],
            )


@rule(descriptor.descriptor_load)
def load(op: Operation) -> Run:
    def run(batch: ProgramBatch, desc: Array, *offsets: RunValue) -> Array:
        return _read(batch, op, desc, _axis_offsets(op, offsets))

    return run


@rule(descriptor.descriptor_gather)
def gather(op: Operation) -> Run:
    def run(batch: ProgramBatch, desc: Array, rows: RunValue, column: RunValue) -> Array:
        return _read(batch, op, desc, _gather_indices(op, rows, column))

    return run


@rule(descriptor.descriptor_store)
def store(op: Operation) -> Run:
    def run(batch: ProgramBatch, desc: Array, value: RunValue, *offsets: RunValue) -> None:
        _write(batch, op, desc, value, _axis_offsets(op, offsets))

    return run


@rule(descriptor.descriptor_scatter)
def scatter(op: Operation) -> Run:
    def run(
        batch: ProgramBatch, desc: Array, value: RunValue, rows: RunValue, column: RunValue
    ) -> None:
        _write(batch, op, desc, value, _gather_indices(op, rows, column))

    return run


@rule(descriptor.descriptor_reduce)
def atomic(op: Operation) -> Run:
    ty = _type(op)

    def apply(flat: Array, index: Array, value: Array) -> None:
        rules.update_in_order(flat, index, value, op["kind"])

    def run(batch: ProgramBatch, desc: Array, value: RunValue, *offsets: RunValue) -> None:
        address, mask = _block_addresses(ty, desc, _axis_offsets(op, offsets), ty.dims)
        try:
            update(batch, ty.of, ty.dims, apply, address, mask, value)
        except OutOfBoundsError as error:
            raise _blame_descriptor(error, ty) from None

    return run


def _type(op: Operation) -> Descriptor:
    ty = op.inputs[0].type
    assert isinstance(ty, Descriptor)
    return ty


# The indices of a block along one axis: its start in each program, and offsets from there; None for
# consecutive indices.
AxisIndices = tuple[Array, Array | None]


def _axis_offsets(op: Operation, offsets: Sequence[RunValue]) -> list[AxisIndices]:
    return [(array_of(offset).astype(np.int64), None) for offset in offsets]


def _gather_indices(op: Operation, rows: RunValue, column: RunValue) -> list[AxisIndices]:
    indices = full(rows, op["rows"].type.shape).astype(np.int64)
    return [(np.zeros(1, np.int64), indices), (array_of(column).astype(np.int64), None)]


def _read(batch: ProgramBatch, op: Operation, desc: Array, axes: Sequence[AxisIndices]) -> Array:
    ty, shape = _type(op), op.result.type.shape
    outside = 0 if ty.padding is Padding.ZERO else math.nan
    other = semantics.constant(outside, ty.of).reshape((1,) * (1 + len(shape)))
    address, mask = _block_addresses(ty, desc, axes, shape)
    try:
        return batch.launch.memory.load(address, mask, other, ty.of, shape)
    except FaultError as fault:
        raise _blame_descriptor(out_of_bounds(batch, "reads", fault, ty.of.itemsize), ty) from None


def _write(
    batch: ProgramBatch, op: Operation, desc: Array, value: RunValue, axes: Sequence[AxisIndices]
) -> None:
    ty, shape = _type(op), op["value"].type.shape
    address, mask = _block_addresses(ty, desc, axes, shape)
    try:
        batch.launch.memory.store(address, array_of(value), mask, ty.of, shape)
    except FaultError as fault:
        raise _blame_descriptor(out_of_bounds(batch, "writes", fault, ty.of.itemsize), ty) from None


def _blame_descriptor(error: ExecutionError, ty: Descriptor) -> ExecutionError:
    """Add a note to the error: the element is in the descriptor's bounds but not in the array."""
    error.notes.append(f"it is within the bounds of the descriptor {ty}, which exceed the array")
    return error


def _block_addresses(
    ty: Descriptor, desc: Array, axes: Sequence[AxisIndices], dims: tuple[int, ...]
) -> tuple[RunValue, Array | None]:
    """Return the addresses of a block, and which of its elements are in bounds (None: all)."""
    rank, size = len(dims), ty.of.itemsize
    base: Array = desc[:, 0].reshape((-1,) + (1,) * rank)
    steps: list[int] = []
    mask: Array | None = None
    for axis, (start, offsets) in enumerate(axes):
        extent = desc[:, 1 + axis]
        stride = desc[:, 1 + rank + axis] * size if axis < rank - 1 else np.full(1, size)
        base = base + (start * stride).reshape((-1,) + (1,) * rank)
        uniform = bool((stride == stride[0]).all())
        if offsets is None and uniform:
            steps.append(int(stride[0]))
        else:
            indices = np.arange(dims[axis])[None] if offsets is None else offsets
            base = base + _along(indices * stride[:, None], axis, rank)
            steps.append(0)
        inside = _inside(start, offsets, extent, dims[axis])
        if inside is not None:
            inside = _along(inside, axis, rank)
            mask = inside if mask is None else mask & inside
    return Affine(base, tuple(steps), dims, ADDRESS), mask


def _inside(start: Array, offsets: Array | None, extent: Array, count: int) -> Array | None:
    """Return which indices along one axis are in bounds; None for all of them."""
    if offsets is None:
        if ((start >= 0) & (start + count <= extent)).all():
            return None
        offsets = np.arange(count)[None]
    index = start[:, None] + offsets
    inside: Array = (index >= 0) & (index < extent[:, None])
    return None if inside.all() else inside


def _along(values: Array, axis: int, rank: int) -> Array:
    """Reshape values (program, extent) to broadcast along one axis of a block."""
    programs, *extent = values.shape
    return values.reshape((programs, *[1] * axis, *extent, *[1] * (rank - axis - 1)))
