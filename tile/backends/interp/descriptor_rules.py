"""Rules of descriptor operations: blocks of an array, read and written within its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tile.backends.interp.atomic_updates import update_in_order
from tile.backends.interp.bytecode import Run, rule_in
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Elements
from tile.backends.interp.rules import update
from tile.backends.interp.translate import Rules, pure
from tile.backends.interp.values import ADDRESS, Affine, Array, RunValue, array_of, full
from tile.errors import ExecutionError
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.ops import descriptor

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


@rule(descriptor.descriptor_load, descriptor.descriptor_gather)
def load(op: Operation) -> Run:
    ty, shape, axes = _type(op), op.result.type.shape, _axes_of(op)
    elements = Elements(ty.of, shape)
    outside = 0 if ty.padding is Padding.ZERO else math.nan
    other = semantics.constant(outside, ty.of).reshape((1,) * (1 + len(shape)))

    def run(batch: ProgramBatch, desc: Array, *indices: RunValue) -> Array:
        address, mask = _block_addresses(ty, desc, axes(indices), shape)
        return batch.launch.memory.load(address, mask, other, elements)

    return run


@rule(descriptor.descriptor_store, descriptor.descriptor_scatter)
def store(op: Operation) -> Run:
    ty, shape, axes = _type(op), op["value"].type.shape, _axes_of(op)
    elements = Elements(ty.of, shape)

    def run(batch: ProgramBatch, desc: Array, value: RunValue, *indices: RunValue) -> None:
        address, mask = _block_addresses(ty, desc, axes(indices), shape)
        batch.launch.memory.store(address, array_of(value), mask, elements)

    return run


@rule(descriptor.descriptor_reduce)
def atomic(op: Operation) -> Run:
    ty, axes = _type(op), _axes_of(op)
    apply, elements = partial(update_in_order, kind=op["kind"]), Elements(ty.of, ty.dims)

    def run(batch: ProgramBatch, desc: Array, value: RunValue, *offsets: RunValue) -> None:
        address, mask = _block_addresses(ty, desc, axes(offsets), ty.dims)
        update(batch, elements, apply, address, mask, value)

    return run


@rule(descriptor.im2col_pointers)
def im2col_pointers(op: Operation) -> Run:
    spatial = len(op["lower"])
    most = (1 << descriptor.OFFSET_BITS[spatial]) - 1

    def run(batch: ProgramBatch, pointers: RunValue, *numbers: RunValue) -> RunValue:
        for axis, offsets in enumerate(map(array_of, numbers[-spatial:])):
            wrong = (offsets < 0) | (offsets > most)
            if wrong.any():
                row = int(np.broadcast_to(wrong, len(batch)).argmax())
                offset = int(offsets[wrong][0])
                raise ExecutionError(
                    f"`{batch.launch.name}` moves pixels by a filter offset of {offset} along "
                    f"spatial axis {axis}; it is 0 to {most} for {spatial} such axes",
                    notes=[batch.launch.element((), int(batch.rows[row]))],
                )
        return pointers

    return run


def _type(op: Operation) -> Descriptor:
    ty = op.inputs[0].type
    assert isinstance(ty, Descriptor)
    return ty


# The indices of a block along one axis: its start in each program, and offsets from there; None for
# consecutive indices.
AxisIndices = tuple[Array, Array | None]


def _axes_of(op: Operation) -> Callable[[Sequence[RunValue]], list[AxisIndices]]:
    """Return the function that makes indices along each axis from the operands of an operation."""
    if op.defn in (descriptor.descriptor_gather, descriptor.descriptor_scatter):
        return partial(_gather_indices, op["rows"].type.shape)
    return lambda offsets: [(array_of(offset).astype(np.int64), None) for offset in offsets]


def _gather_indices(shape: tuple[int, ...], operands: Sequence[RunValue]) -> list[AxisIndices]:
    rows, column = operands
    indices = full(rows, shape).astype(np.int64)
    return [(np.zeros(1, np.int64), indices), (array_of(column).astype(np.int64), None)]


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
