"""Pass arguments to a device: users' OpenCL memory, and host arrays by address or as copies.

OpenCL memory is buffers, arrays and SVM pointers. A host array is accessed in place where the
device can, or copied to the device and back. Views of one array keep sharing memory: arrays whose
bytes overlap are copied as one range, from the first byte to the last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl

from tile.backends.base import LaunchArgument
from tile.backends.host_memory import Array, HostRange, merged_ranges, range_at
from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device
from tile.errors import ArgumentValueError


def in_place(array: Array) -> Any:
    """Return an array's address as an argument, for devices that access the host's memory."""
    return None if array.size == 0 else at_address(array.ctypes.data)


def at_address(address: int) -> Any:
    """Return a host address as an argument."""
    return cl.SVM((ctypes.c_char * 1).from_address(address))


def _bytes_at(low: int, high: int) -> Array:
    """Return host memory as an array of bytes."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))


def sub_buffer(buffer: Any, offset: int, device: Device, name: str) -> Any:
    """Return the sub-buffer from an offset in bytes to the end.

    Raises `ArgumentValueError` if the device does not allow a sub-buffer at that offset.
    """
    if offset == 0:
        return buffer
    alignment = device.raw.mem_base_addr_align // 8
    if offset % alignment:
        raise ArgumentValueError(
            f"argument {name!r} is a view that begins {offset} bytes into memory which another "
            f"argument shares or which lies before it; on this device it can begin at "
            f"multiples of {alignment} bytes"
        )
    return buffer.get_sub_region(offset, buffer.size - offset)


# Atomic operations on 8 and 16 bits access the aligned word around an element.
_WORD = 4  # bytes


@dataclass
class StagedRange(HostRange):
    """A range of host memory and its copy on the device."""

    buffer: Any = None
    shared: bool = False  # the buffer may be the host memory itself

    @property
    def whole_words(self) -> bool:
        """True if the range begins and ends at aligned words."""
        return self.low % _WORD == 0 == self.high % _WORD

    def stage(self, device: Device) -> None:
        """Create the buffer, with the contents of the host memory.

        Its size is a multiple of a word: a device may refuse access to a word that the buffer only
        contains a part of. Host memory that is no such words is copied, since its first and last
        word contain bytes of other variables.
        """
        host = _bytes_at(self.low, self.high)
        flags: int = cl.mem_flags.READ_WRITE
        self.shared = device.shares_memory and self.whole_words
        if self.shared:
            flags |= cl.mem_flags.USE_HOST_PTR
        elif self.size % _WORD == 0:
            flags |= cl.mem_flags.COPY_HOST_PTR
        else:
            whole = self.size + -self.size % _WORD
            self.buffer = cl.Buffer(device.context, flags, whole)
            cl.enqueue_copy(device.queue, self.buffer, host)
            return
        self.buffer = cl.Buffer(device.context, flags, hostbuf=host)

    def fetch(self, queue: Any) -> None:
        """Copy the buffer back; memory that is shared is only mapped for the host."""
        if self.shared:
            reading = cl.map_flags.READ
            mapped, _ = cl.enqueue_map_buffer(
                queue, self.buffer, reading, 0, (self.size,), np.dtype(np.uint8)
            )
            mapped.base.release(queue)
        else:
            cl.enqueue_copy(queue, _bytes_at(self.low, self.high), self.buffer)


@dataclass
class Staging:
    """The device copies of the host arrays of one launch."""

    device: Device
    ranges: list[StagedRange] = field(default_factory=list)

    def stage(self, arrays: Sequence[Array], written: Sequence[bool]) -> None:
        """Copy arrays to the device; those that are `written` are copied back by `fetch`."""
        self.ranges = merged_ranges(StagedRange, zip(arrays, written, strict=True))
        for staged in self.ranges:
            staged.stage(self.device)

    def argument(self, array: Array, name: str) -> Any:
        """Return the buffer or sub-buffer that holds an array; None for an empty array.

        Raises `ArgumentValueError` for a view at whose offset the device allows no sub-buffer.
        """
        if array.size == 0:
            return None
        address = array.ctypes.data
        staged = range_at(self.ranges, address)
        assert staged is not None, "an array that was not staged"
        return sub_buffer(staged.buffer, address - staged.low, self.device, name)

    def fetch(self) -> None:
        """Copy written arrays back."""
        for staged in self.ranges:
            if staged.written:
                staged.fetch(self.device.queue)


@dataclass(frozen=True)
class Memory:
    """A buffer or an SVM pointer, and the offset of the argument in it."""

    name: str
    base: Any  # a buffer or an SVM pointer; None for an empty array
    offset: int  # in bytes
    context: Any  # None for an SVM pointer
    queue: Any

    def argument(self, device: Device) -> Any:
        """Return the value to pass to the kernel.

        Raises `ArgumentValueError` for a view at whose offset the device allows no sub-buffer.
        """
        if self.base is None:
            return None
        if isinstance(self.base, cl.SVMPointer):
            return at_address(self.base.svm_ptr + self.offset) if self.offset else self.base
        return sub_buffer(self.base, self.offset, device, self.name)


def opencl_memory(names: Sequence[str], arguments: Sequence[LaunchArgument]) -> dict[int, Memory]:
    """Return the arguments that are OpenCL memory, by their index."""
    return {
        i: _memory(name, getattr(value, "source", None))
        for i, (name, value) in enumerate(zip(names, arguments, strict=True))
        if not isinstance(value, np.ndarray | np.generic)
    }


def _memory(name: str, source: Any) -> Memory:
    base, offset, queue = source, 0, None
    if hasattr(source, "base_data"):  # an array
        base, offset, queue = source.base_data, source.offset, source.queue
    context = getattr(base, "context", None) if isinstance(base, cl.MemoryObject) else None
    if context is None and queue is not None:
        context = queue.context
    return Memory(name, base, offset, context, queue)


def launch_device(memories: Sequence[Memory], name: str, kernel: str) -> Device:
    """Return the device to launch on.

    It is the device of the memory, with the queue of the first array; without memory that has a
    context, the device that `name` selects (`devices.chosen`).
    Raises `ArgumentValueError` for memory of several contexts.
    """
    with_context = [memory for memory in memories if memory.context is not None]
    if not with_context:
        return devices.chosen(name)
    first = next((memory for memory in with_context if memory.queue is not None), with_context[0])
    for memory in with_context:
        if memory.context != first.context:
            raise ArgumentValueError(
                f"arguments {first.name!r} and {memory.name!r} of {kernel}() are in different "
                "OpenCL contexts, and a kernel runs in one; make both with one context or queue"
            )
    own = devices.chosen(name)
    if first.queue is None and own.context == first.context:
        return own
    return devices.USERS.of(first.context, first.queue)


def finish_other_queues(memories: Sequence[Memory], device: Device) -> None:
    """Wait for the queues, other than the device's own, that the memory of a launch belongs to."""
    for queue in {memory.queue for memory in memories} - {None, device.queue}:
        queue.finish()
