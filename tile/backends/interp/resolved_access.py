"""Accesses of a launch's arrays whose bounds are checked: strided elements, or addresses.

An affine access is represented by `Strided`, the strided elements of one array

    flat[offsets + sum(steps[k] * i_k)]   for i_k below extents[k]

where `offsets` has the start of each program, and varies along a tile axis only if its step is
zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tile.backends.interp.values import Array, RunValue, array_of
from tile.backends.interp.view_bytes import ViewBytes
from tile.ir.core import Operation
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.ops.memory import pointee
from tile.ir.types import Pointer, Scalar

SHORTEST_RUN = 8  # of elements that are compared as one by `Strided.is_disjoint`


def restrided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a view of other extents, from the array's first element; writeable if the array is.

    NumPy's `as_strided` does not support all 8-bit float dtypes, so it is applied to integers.
    """
    bits = array.view(f"u{array.itemsize}")
    view = as_strided(bits, shape, strides, writeable=bool(array.flags.writeable))
    return view.view(array.dtype)


@dataclass(eq=False)
class Buffer:
    """An array in its window."""

    name: str
    array: Array
    origin: int  # virtual address of the element at index 0
    start: int = 0  # virtual address of the first byte
    end: int = 0  # and after the last one
    span: Array = field(default_factory=lambda: np.empty(0, np.uint8))  # bytes from start to end
    gaps: ViewBytes | None = None  # the bytes of a view that does not cover its span
    views: dict[np.dtype[Any], Array] = field(default_factory=dict)

    @property
    def real(self) -> int:
        """The real address of the element at index 0."""
        return self.array.ctypes.data

    @property
    def is_storage(self) -> bool:
        """True if the bytes are those of the storage of a view, of which the array is a part."""
        return hasattr(self.array, "storage_span")

    def element(self, address: Any) -> Any:
        """Return the number of the element at an address, or at each of an array of addresses."""
        return (address - self.origin) // self.array.itemsize

    def typed(self, dtype: np.dtype[Any]) -> Array:
        """Return the bytes of the array as a flat array of `dtype`."""
        view = self.views.get(dtype)
        if view is None:
            whole = len(self.span) // dtype.itemsize * dtype.itemsize
            view = self.views[dtype] = self.span[:whole].view(dtype)
        return view


@dataclass
class Strided:
    """An access as `flat[offsets + sum(steps[k] * i_k)]` for i_k below `extents[k]`.

    `part` is (axis, first, count) if the access covers only that run of one axis of its tile.
    `buffer` is the array; None if the access has no elements.
    """

    flat: Array
    offsets: Array
    steps: tuple[int, ...]
    extents: Sequence[int]
    part: tuple[int, int, int] | None
    buffer: Buffer | None = None

    def grid_view(self) -> Array | None:
        """Return the elements as a view whose first two axes are rows and columns of programs.

        Return None if the starts of programs are no such grid.
        """
        grid = grid_of(self.offsets)
        if grid is None or 0 in self.steps:
            return None
        first = self.offsets.item(0)
        shape = (grid.rows, grid.columns, *self.extents)
        return self.elements(first, shape, (grid.down, grid.across, *self.steps))

    def view(self) -> Array | None:
        """Return the elements as a view of the array; None if its programs are not equidistant."""
        offsets = self.offsets
        distance = 0
        if offsets.size != 1:
            if offsets.size != offsets.shape[0]:
                return None
            line = offsets.reshape(-1)
            distance = int(line[1] - line[0])
            if len(line) > 2 and (line[1:] - line[:-1] != distance).any():
                return None
        extents = [e if step else 1 for e, step in zip(self.extents, self.steps, strict=True)]
        return self.elements(offsets.item(0), (offsets.shape[0], *extents), (distance, *self.steps))

    def elements(self, first: int, shape: Sequence[int], steps: Sequence[int]) -> Array:
        """Return a view of elements of the array, from the index `first`, which must exist."""
        size, dtype = self.flat.itemsize, self.flat.dtype
        strides = [step * size for step in steps]
        # This checks its bounds, and takes a third of the time of `as_strided`. NumPy exports the
        # memory of bytes, but not of all 8-bit floats.
        return np.ndarray(shape, dtype, self.flat.view(np.uint8), first * size, strides)

    def rows(self) -> tuple[Array, Array, tuple[int, ...]]:
        """Return (windows, starts, order); the access is `windows[starts].transpose(order)`.

        `windows` is a view with a window of the strided axes at every element of the array.
        """
        size = self.flat.itemsize
        strided = [axis for axis, step in enumerate(self.steps) if step]
        uniform = [axis for axis, step in enumerate(self.steps) if not step]
        windows = restrided(
            self.flat,
            (len(self.flat), *(self.extents[axis] for axis in strided)),
            (size, *(self.steps[axis] * size for axis in strided)),
        )
        starts = self.offsets.squeeze(tuple(axis + 1 for axis in strided))
        order = [0] * (1 + len(self.steps))
        for position, axis in enumerate(uniform):
            order[axis + 1] = 1 + position
        for position, axis in enumerate(strided):
            order[axis + 1] = 1 + len(uniform) + position
        return windows, starts, tuple(order)

    def read(self) -> Array:
        """Return a copy of the elements."""
        if not self.flat.size:
            return np.empty((1, *self.extents), self.flat.dtype)
        view = self.view()
        if view is not None:
            return view.copy()
        grid = self.grid_view()
        if grid is not None:
            return grid.copy().reshape(-1, *self.extents)
        windows, starts, order = self.rows()
        return windows[starts].transpose(order)

    def is_disjoint(self) -> bool:
        """Return True if no two programs access an element; False if that takes long to tell.

        The ranges of the programs do not overlap, or those of their runs along the innermost axis.
        An axis whose step is longer than all programs reach along the others changes nothing.
        """
        if len(self.offsets) == 1:
            return True
        axes = [axis for axis, step in enumerate(self.steps) if step and self.extents[axis] > 1]
        axes.sort(key=lambda axis: abs(self.steps[axis]))
        reach = [abs(self.steps[axis]) * (self.extents[axis] - 1) for axis in axes]
        between = int(self.offsets.max()) - int(self.offsets.min())
        while axes and between + sum(reach[:-1]) < abs(self.steps[axes[-1]]):
            axes.pop()
            reach.pop()
        if _are_apart(self.offsets, sum(reach)):
            return True
        if len(axes) < 2 or self.extents[axes[0]] < SHORTEST_RUN:
            return False
        starts = self.offsets
        for axis in axes[1:]:
            shape = [1] * starts.ndim
            shape[axis + 1] = -1
            starts = starts + (np.arange(self.extents[axis]) * self.steps[axis]).reshape(shape)
        return _are_apart(starts, reach[0])

    def distinct(self, value: Array) -> bool:
        """Return True if all elements have distinct addresses, so that order does not matter."""
        if not self.flat.size:
            return True
        if self.offsets.shape[0] == 1 and value.shape[0] > 1:
            return False
        sizes = [(abs(step), e) for step, e in zip(self.steps, self.extents, strict=True) if e > 1]
        for axis, step in enumerate(self.steps):
            if step == 0 and self.extents[axis] > 1 and self.offsets.shape[axis + 1] == 1:
                return False
        strided = sorted(pair for pair in sizes if pair[0])
        span = _span(strided)
        if span is None:
            return False
        starts = self.offsets.reshape(-1)
        if len(starts) == 1:
            return True
        gaps = np.diff(starts)
        if (gaps >= span).all() or (-gaps >= span).all():
            return True
        grid = grid_of(self.offsets)
        if grid is not None:
            axes = (abs(grid.down), grid.rows), (abs(grid.across), grid.columns)
            if _span(sorted([*strided, *axes])) is not None:
                return True
        return bool((np.diff(np.sort(starts)) >= span).all()) or (
            min(self.steps, default=0) >= 0 and _in_lattice(starts, strided)
        )

    def write(self, value: Array, compare: bool) -> bool:
        """Store the values; return True if memory changed, which is assumed unless `compare`."""
        if not self.flat.size:
            return False
        if self.part is not None:
            axis, first, count = self.part
            if value.shape[axis + 1] != 1:
                value = value[(slice(None),) * (axis + 1) + (slice(first, first + count),)]
        before = self.read().tobytes() if compare else b""
        view = self.view()
        if view is not None and view.shape[1:] == tuple(self.extents):
            view[...] = value
            return not compare or self.read().tobytes() != before
        extents = (self.offsets.shape[0], *self.extents)
        full = np.broadcast_to(value, extents)
        grid = self.grid_view() if view is None else None
        if grid is not None:
            grid[...] = full.reshape(grid.shape)
        else:
            windows, starts, order = self.rows()
            for axis, step in enumerate(self.steps):
                if step == 0 and self.offsets.shape[axis + 1] == 1:  # the last value per address
                    full = full[(slice(None),) * (axis + 1) + (slice(-1, None),)]
            windows[starts] = full.transpose(np.argsort(order))
        return not compare or self.read().tobytes() != before

    def padded(self, values: Array, other: Array | None, shape: tuple[int, ...]) -> Array:
        """Return a tile with the values of the active run, and `other` (or zero) elsewhere."""
        assert self.part is not None
        axis, first, count = self.part
        fill = np.zeros((1,) * (1 + len(shape)), values.dtype) if other is None else other
        extents = np.broadcast_shapes(
            (*values.shape[: axis + 1], 1, *values.shape[axis + 2 :]), fill.shape
        )
        extents = (*extents[: axis + 1], shape[axis], *extents[axis + 2 :])
        full = np.empty(extents, values.dtype)
        full[...] = fill
        full[(slice(None),) * (axis + 1) + (slice(first, first + count),)] = values
        return full


class Grid(NamedTuple):
    """Rows and columns of programs, and the distances of their starts down and across."""

    rows: int
    columns: int
    down: int
    across: int


def grid_of(offsets: Array) -> Grid | None:
    """Return the grid that the starts of programs are; None for equidistant and other ones."""
    if offsets.size != len(offsets) or len(offsets) < 4:
        return None
    line = offsets.reshape(-1)
    distances = np.diff(line)
    across = distances.item(0)
    columns = int((distances != across).argmax()) + 1
    if columns == 1 or len(line) % columns:
        return None
    table = line.reshape(-1, columns)
    starts = table[:, 0]
    down = np.diff(starts)
    if (down != down[0]).any() or (table[1:] - starts[1:, None] != table[0] - starts[0]).any():
        return None
    return Grid(len(table), columns, down.item(0), across)


def _span(strided: Sequence[tuple[int, int]]) -> int | None:
    """Return the elements from the first to the last of an access; None if some may coincide.

    `strided` has its steps, all positive and the smallest first, and its extents.
    """
    span = 1
    for step, extent in strided:
        if step < span:
            return None
        span = step * (extent - 1) + span
    return span


def _in_lattice(starts: Array, strided: Sequence[tuple[int, int]]) -> bool:
    """Return True if accesses are distinct blocks of one lattice, so that no two overlap.

    `strided` has the steps of an access and its extents, the smallest step first. The blocks may
    interleave in memory, as blocks of rows and columns of a matrix do: the digits of an address are
    its indices, if no index reaches the next greater step.
    """
    rest, period = starts, 0
    for step, extent in reversed(strided):
        index, rest = np.divmod(rest, step)
        if period and (int(index.max()) + extent) * step > period:
            return False
        phases = index % extent
        if (phases != phases[0]).any():
            return False
        period = step
    return len(np.unique(starts)) == len(starts)


def _are_apart(starts: Array, reach: int) -> bool:
    """Return True if ranges from these starts to `reach` after them do not overlap."""
    return bool((np.diff(np.sort(starts, axis=None)) > reach).all())


def active_run(mask: Array, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (axis, first, count) of a mask that is one run along one axis, equal in all programs.

    Returns None for any other mask, also for one that is true everywhere.
    """
    if mask.shape[0] != 1:
        return None
    varying = [axis for axis in range(len(shape)) if mask.shape[axis + 1] != 1]
    if len(varying) > 1 or not shape:
        return None
    axis = varying[0] if varying else len(shape) - 1
    line = mask.reshape(-1)
    if not varying:
        return (axis, 0, 0) if not line[0] else None
    first = int(line.argmax())
    count = int(line.sum())
    if count and not line[first : first + count].all():
        return None
    return axis, first, count


class Elements:
    """The elements of an access: their type, and the shape of the tile that they are."""

    def __init__(self, element: Scalar | Pointer, shape: tuple[int, ...]) -> None:
        self.element = element
        self.shape = shape
        self.dtype = numpy_dtype(element)

    @classmethod
    def of(cls, op: Operation) -> Elements:
        """Return the elements that an operation accesses through its first operand, pointers."""
        ptr = op.inputs[0].type
        return Elements(pointee(op.name, ptr), ptr.shape)


@dataclass(slots=True)
class BufferLanes:
    """The lanes of one access that fall into one array.

    They access `flat[index]` where `lanes` is true (None: everywhere). The buffer is None if no
    lane is active.
    """

    buffer: Buffer | None
    flat: Array
    index: Array
    lanes: Array | None


@dataclass(slots=True)
class ResolvedAccess:
    """An access that is in bounds: strided elements of one array, or addresses in one or more."""

    elements: Elements
    address: RunValue
    mask: Array | None
    strided: Strided | None
    groups: Sequence[BufferLanes] = ()

    @property
    def parts(self) -> Sequence[Strided | BufferLanes]:
        """The parts of the access, each in one array."""
        return self.groups if self.strided is None else (self.strided,)

    def read(self, other: Array | None) -> Array:
        """Return the elements; `other`, or zero, where the mask is false."""
        if self.strided is None:
            return self._gather(other)
        if self.strided.part is None:
            return self.strided.read()
        return self.strided.padded(self.strided.read(), other, self.elements.shape)

    def _gather(self, other: Array | None) -> Array:
        group, dtype = self.groups[0], self.elements.dtype
        if len(self.groups) == 1:
            values = group.flat[group.index]
            if group.lanes is None:
                return values
            return np.where(group.lanes, values, np.zeros(1, dtype) if other is None else other)
        masks = (x.shape for x in (self.mask, other) if x is not None)
        values = np.zeros(np.broadcast_shapes(array_of(self.address).shape, *masks), dtype)
        if other is not None:
            values[...] = other
        for group in self.groups:
            lanes = np.broadcast_to(group.lanes, values.shape)  # type: ignore[arg-type]
            values[lanes] = group.flat[np.broadcast_to(group.index, values.shape)[lanes]]
        return values

    def write(self, value: Array, compare: bool) -> bool:
        """Store the values; return True if memory changed, which is assumed unless `compare`."""
        if self.strided is not None:
            return self.strided.write(value, compare)
        arrays = (array_of(self.address), value, self.mask)
        extents = (max(len(x) for x in arrays if x is not None), *self.elements.shape)
        values = np.broadcast_to(value, extents)
        changed = False
        for group in self.groups:
            index = np.broadcast_to(group.index, extents)
            if group.lanes is None:
                index, chosen = index.ravel(), values.ravel()
            else:
                lanes = np.broadcast_to(group.lanes, extents)
                index, chosen = index[lanes], values[lanes]
            before = group.flat[index].tobytes() if compare else b""
            group.flat[index] = chosen
            changed |= not compare or group.flat[index].tobytes() != before
        return changed
