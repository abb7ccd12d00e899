"""Users' OpenCL buffers, arrays and SVM pointers as kernel arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from tile.backends.base import LaunchArgument
from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device
from tile.backends.opencl.staging import at_address, sub_buffer
from tile.errors import ArgumentValueError


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
