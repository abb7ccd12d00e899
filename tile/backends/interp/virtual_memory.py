"""Virtual memory of a launch: its arrays, and loads and stores with bounds checks.

Each array passed to the kernel has its own window of a virtual address space, 2^46 bytes wide, so
that an address alone tells which array it belongs to and how far out of bounds it is. Only elements
of the view that was passed may be accessed, whatever else its allocation holds. No data structure
here is proportional to the memory that a view spans.

An access is an array of addresses or an `Affine`, with or without a mask. From the cheapest:

1. affine, all lanes active: one strided view of the array, copied;
2. affine, programs at irregular offsets: a gather of whole rows;
3. affine, with a mask that is one run along one axis: as before, on the active run;
4. anything else: a gather by address.

`lazy_zeros` makes arrays of data about memory, which occupy it only where they are touched.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tile.backends.base import accessible
from tile.backends.interp.resolved_access import (
    Buffer,
    BufferLanes,
    Elements,
    ResolvedAccess,
    Strided,
    active_run,
    restrided,
)
from tile.backends.interp.shifted_reads import SeenRead
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Affine, Array, RunValue, array_of, is_true
from tile.backends.interp.view_bytes import ViewBytes
from tile.config import config
from tile.errors import ArgumentValueError
from tile.ir.core import Operation

WINDOW_BITS = 46
WINDOW = 1 << WINDOW_BITS
# Virtual addresses are above all real ones, so that one read from memory can be told apart.
LOWEST = 1 << 62
# Arrays begin in the middle of their window, at an address with the alignment of the real one.
MIDDLE = WINDOW >> 1
ALIGNMENT = 4096
# Limits of a launch: bytes from an array's first element to its last, and arrays.
MAX_ARRAY_BYTES = WINDOW >> 2
MAX_ARRAYS = (1 << 63) - LOWEST >> WINDOW_BITS


class DetectedFaultError(Exception):
    """A fault of an operation, for which the scheduler raises an error (`fault_report.error_for`).

    An operation that raises one has changed nothing.
    """


@dataclass(eq=False)
class FaultError(DetectedFaultError):
    """An access out of bounds: the first lane that is, its program (`row`) and its address.

    `count` of the program's `active` lanes are out of bounds; `size` is the bytes of an element.
    """

    row: int
    lane: tuple[int, ...]
    address: int
    count: int
    active: int
    size: int


class Memory:
    """All arrays of one launch."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.version = 0  # counts changes, so that a waiting loop notices one
        # True if a loop may wait for a change; a store that changes no value is then not counted.
        self.watched = False
        # By load in a loop, a read that later ones may repeat; None after one that none can.
        self.seen: dict[Operation, SeenRead | None] = {}

    # -- arrays

    def add(self, name: str, array: Array) -> int:
        """Assign an array a window; return the virtual address of its first element.

        Raises `ArgumentValueError` if the array exceeds a window, or no window is left.
        """
        low, high = accessible(array)
        self._check_limits(name, high - low)
        base = LOWEST + len(self.buffers) * WINDOW + MIDDLE + array.ctypes.data % ALIGNMENT
        buffer = Buffer(name, array, base, base + low, base + high)
        if array.size:
            buffer.span = _bytes(array, low, high)
            inside = ViewBytes.of(array)
            buffer.gaps = None if inside.dense or buffer.is_storage else inside
        self.buffers.append(buffer)
        return base

    def _check_limits(self, name: str, size: int) -> None:
        if size > MAX_ARRAY_BYTES:
            raise ArgumentValueError(
                f"argument {name!r} spans {size} bytes from its first element to its last; "
                f"the interpreter takes arrays of up to {MAX_ARRAY_BYTES}"
            )
        if len(self.buffers) == MAX_ARRAYS:
            raise ArgumentValueError(
                f"a launch on the interpreter takes up to {MAX_ARRAYS} arrays, with those that "
                "pointers point to"
            )

    def virtual(self, addresses: Array) -> Array:
        """Convert real addresses, read from memory, to virtual ones.

        Addresses that are virtual already, or belong to no array of the launch, are unchanged.
        Under `TILE_INTERP_MEMORY=process` the process's memory is added to those arrays.
        """
        process = config.interp_memory == "process"

        def convert(address: int) -> int:
            for buffer in self.buffers:
                shift = buffer.origin - buffer.real
                if buffer.start <= address + shift < buffer.end:
                    return address + shift
            mapping = process_memory(address) if process else None
            if mapping is None:
                return address
            return self.add("memory of the process", mapping) + address - mapping.ctypes.data

        return _converted(addresses, convert)

    def real(self, addresses: Array) -> Array:
        """Convert virtual addresses to real ones, as memory holds them."""

        def convert(address: int) -> int:
            buffer = self.buffer_at(address)
            return address if buffer is None else address - buffer.origin + buffer.real

        return _converted(addresses, convert)

    def buffer_at(self, address: int) -> Buffer | None:
        """Return the array in whose window an address lies; None outside of all windows."""
        index = (address - LOWEST) >> WINDOW_BITS
        return self.buffers[index] if 0 <= index < len(self.buffers) else None

    def by_buffer(self, addresses: Array) -> Iterator[tuple[Buffer, Any]]:
        """Yield the arrays in whose windows addresses lie, each with an index of its addresses."""
        windows = addresses >> WINDOW_BITS
        distinct = _distinct(windows)
        for window in distinct:
            buffer = self.buffer_at(int(window) << WINDOW_BITS)
            if buffer is not None:
                yield buffer, ... if len(distinct) == 1 else windows == window

    # -- accesses

    def load(
        self, address: RunValue, mask: Array | None, other: Array | None, elements: Elements
    ) -> Array:
        """Return the elements at some addresses; `other` (or zero) where the mask is false.

        Raises `FaultError`.
        """
        return self.read(self.resolve(address, mask, elements), other)

    def store(
        self, address: RunValue, value: Array, mask: Array | None, elements: Elements
    ) -> None:
        """Write elements. If several have one address, the last program's last element wins.

        Raises `FaultError` before anything is written.
        """
        self.write(self.resolve(address, mask, elements, value), value)

    def resolve(
        self, address: RunValue, mask: Array | None, elements: Elements, value: Array | None = None
    ) -> ResolvedAccess:
        """Resolve the addresses of an access to elements of arrays.

        value: that of a store, whose elements are strided only if their addresses are distinct.
        Raises `FaultError`.
        """
        access = self.strided(address, mask, elements)
        if access is not None and (value is None or access.distinct(value)):
            return ResolvedAccess(elements, address, mask, access)
        groups = self.groups(array_of(address), mask, elements)
        return ResolvedAccess(elements, address, mask, None, groups)

    def read(self, access: ResolvedAccess, other: Array | None) -> Array:
        """Return the elements of an access, as `load` does."""
        values = access.read(other)
        return self.virtual(values) if access.elements.element.is_ptr() else values

    def write(self, access: ResolvedAccess, value: Array) -> None:
        """Write the elements of an access, as `store` does."""
        stored = self.real(value) if access.elements.element.is_ptr() else value
        self.changed(access.write(stored, self.watched))

    def changed(self, really: bool = True) -> None:
        self.version += really

    # -- affine accesses

    def strided(self, address: RunValue, mask: Array | None, elements: Elements) -> Strided | None:
        """Return the access as strided elements in bounds of one array; None if it is not that."""
        if type(address) is not Affine:
            return None
        part: tuple[int, int, int] | None = None
        if not is_true(mask):
            assert mask is not None
            part = active_run(mask, elements.shape)
            if part is None:
                return None
        dtype, extents = elements.dtype, list(elements.shape)
        base, steps = address.base, address.steps
        if part is not None:
            axis, first, count = part
            if base.shape[axis + 1] != 1:
                base = base[(slice(None),) * (axis + 1) + (slice(first, first + count),)]
            else:
                base = base + first * steps[axis]
            extents[axis] = count
            if count == 0:
                return Strided(np.empty(0, dtype), base, steps, extents, part)
        below = above = 0
        for step, extent in zip(steps, extents, strict=True):
            if step < 0:
                below += step * (extent - 1)
            else:
                above += step * (extent - 1)
        low, high = int(base.min()) + below, int(base.max()) + above
        buffer = self.buffer_at(low)
        size = dtype.itemsize
        if (
            buffer is None
            or low < buffer.start
            or high + size > buffer.end
            or buffer.gaps is not None
            or any(step % size for step in steps)
        ):
            return None
        offsets = base - buffer.start
        if size > 1:
            if int(np.bitwise_or.reduce(offsets, axis=None)) & (size - 1):
                return None
            offsets //= size
        return Strided(
            buffer.typed(dtype),
            offsets,
            tuple([step // size for step in steps]),
            extents,
            part,
            buffer,
        )

    # -- accesses by address

    def groups(self, addresses: Array, mask: Array | None, elements: Elements) -> list[BufferLanes]:
        """Return the active lanes of an access by array, with their indices in its flat view.

        Raises `FaultError` if any active lane lies outside its array.
        """
        lanes = None if is_true(mask) else mask
        if lanes is None:
            low, high = int(addresses.min()), int(addresses.max())
        else:
            if not lanes.any():
                nowhere = np.zeros((1,) * addresses.ndim, np.intp)
                return [BufferLanes(None, np.zeros(1, elements.dtype), nowhere, lanes)]
            if lanes.shape != addresses.shape:
                addresses, lanes = np.broadcast_arrays(addresses, lanes)
            active = addresses[lanes]
            low, high = int(active.min()), int(active.max())
        if low >> WINDOW_BITS == high >> WINDOW_BITS:
            return [self.group(addresses, lanes, low, high, elements)]
        groups = []
        windows = addresses >> WINDOW_BITS
        all_lanes = np.True_ if lanes is None else lanes
        for number in np.unique(windows if lanes is None else windows[lanes]):
            own = (windows == number) & all_lanes
            low, high = int(addresses[own].min()), int(addresses[own].max())
            try:
                groups.append(self.group(addresses, own, low, high, elements))
            except FaultError:  # report the first wrong element of all, not of this array
                self.fault(addresses, lanes, elements)
        return groups

    def group(
        self, addresses: Array, lanes: Array | None, low: int, high: int, elements: Elements
    ) -> BufferLanes:
        buffer = self.buffer_at(low)
        size = elements.dtype.itemsize
        if buffer is None or low < buffer.start or high + size > buffer.end:
            self.fault(addresses, lanes, elements)
        index = addresses - buffer.start
        if size > 1:
            misaligned = index & (size - 1)
            if (misaligned if lanes is None else misaligned[lanes]).any():
                self.fault(addresses, lanes, elements)
            index //= size
        if lanes is not None:  # inactive lanes are read where an active one is
            index = np.where(lanes, index, (low - buffer.start) // size)
        if buffer.gaps is not None:
            inside = buffer.gaps.contain(index * size, size)
            if not (inside if lanes is None else inside[lanes]).all():
                self.fault(addresses, lanes, elements)
        return BufferLanes(buffer, buffer.typed(elements.dtype), index, lanes)

    def fault(self, addresses: Array, lanes: Array | None, elements: Elements) -> NoReturn:
        """Raise `FaultError` for the first lane, in program order, that is out of bounds."""
        extents, size = addresses.shape[:1] + elements.shape, elements.dtype.itemsize
        if lanes is not None:
            extents = np.broadcast_shapes(extents, lanes.shape)
        spread = np.broadcast_to(addresses, extents)
        active = np.ones(extents, bool) if lanes is None else np.broadcast_to(lanes, extents)
        wrong = active & ~self.valid(spread, size)
        row, *lane = (int(i) for i in np.unravel_index(int(wrong.argmax()), extents))
        position = (row, *lane)
        count, of = int(wrong[row].sum()), int(active[row].sum())
        raise FaultError(row, tuple(lane), int(spread[position]), count, of, size)

    def valid(self, addresses: Array, size: int) -> Array:
        """Return the addresses that have `size` bytes inside an array, aligned to `size`."""
        good = np.zeros(addresses.shape, bool)
        windows = addresses >> WINDOW_BITS
        for number in _distinct(windows):
            buffer = self.buffer_at(int(number) << WINDOW_BITS)
            if buffer is None:
                continue
            valid = (windows == number) & (addresses >= buffer.start)
            valid &= addresses + size <= buffer.end
            valid &= (addresses - buffer.start) % size == 0
            if buffer.gaps is not None:
                valid &= buffer.gaps.contain(np.where(valid, addresses - buffer.start, 0), size)
            good |= valid
        return good


def _distinct(windows: Array) -> Array:
    """Return the distinct windows; usually there is only one, which is checked first."""
    uniform = windows.size and windows.flat[0] == windows.min() == windows.max()
    return windows.reshape(-1)[:1] if uniform else np.unique(windows)


def _converted(addresses: Array, convert: Callable[[int], int]) -> Array:
    """Return addresses converted one by one, each distinct one once."""
    distinct, inverse = np.unique(addresses, return_inverse=True)
    mapped = np.array([convert(int(address)) for address in distinct], np.int64)
    return mapped[inverse].reshape(addresses.shape)


def process_memory(address: int) -> Array | None:
    """Return the mapping of the process's memory that has an address, as bytes.

    None if there is none that can be read and written, or the system does not list them (proc(5)).
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        span, access = line.split()[:2]
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= address < high and access.startswith("rw"):
            return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    return None


def _bytes(array: Array, low: int, high: int) -> Array:
    """Return all bytes from `low` to `high`, relative to the first element, as a view."""
    if hasattr(array, "storage_span"):
        memory = (ctypes.c_uint8 * (high - low)).from_address(array.ctypes.data + low)
        whole = np.ctypeslib.as_array(memory)
        whole.flags.writeable = array.flags.writeable
        return whole
    upwards = (slice(None, None, -1) if s < 0 else slice(None) for s in array.strides)
    corner = array[(..., *upwards)]
    first = restrided(corner, (1,), (array.itemsize,))
    return restrided(first.view(np.uint8), (high - low,), (1,))


NO_RESERVE = 0x4000  # Linux's MAP_NORESERVE, which `mmap` defines from Python 3.13 on


def lazy_zeros(count: int, dtype: type[np.generic]) -> Array:
    """Return a one-dimensional array of zeros whose untouched pages occupy no memory.

    Raises `ArgumentValueError` if this process has no address space for it.
    """
    size = count * np.dtype(dtype).itemsize
    if size < TUNING.mapped_bytes or sys.platform != "linux":
        return np.zeros(count, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype)
    except OSError as error:
        raise ArgumentValueError(
            f"checks keep {size} bytes about an array that spans {count} elements, and this "
            f"process has no address space for them ({error.strerror}); pass a smaller view, or "
            "launch with sanitize='none'"
        ) from error
