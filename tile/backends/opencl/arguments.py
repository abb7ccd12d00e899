"""Memory of OpenCL that users made, as arguments: where it is, and what a launch needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from tile.backends.base import LaunchArgument
from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device
from tile.backends.opencl.staging import at_address, part_of
from tile.errors import ArgumentValueError


@dataclass(frozen=True)
class Memory:
    """A buffer, or an address of shared virtual memory, and where the argument begins in it."""

    name: str
    held: Any  # None for no memory at all
    offset: int
    context: Any  # None for an address
    queue: Any

    def argument(self, device: Device) -> Any:
        """What the kernel is given. Raises `ArgumentValueError` for a view it cannot have."""
        if self.held is None:
            return None
        if isinstance(self.held, cl.SVMPointer):
            return at_address(self.held.svm_ptr + self.offset) if self.offset else self.held
        return part_of(self.held, self.offset, device, self.name)


def memories(names: Sequence[str], arguments: Sequence[LaunchArgument]) -> dict[int, Memory]:
    """The arguments that are memory of OpenCL, by their places."""
    return {
        i: _memory(name, getattr(value, "source", None))
        for i, (name, value) in enumerate(zip(names, arguments, strict=True))
        if not isinstance(value, np.ndarray | np.generic)
    }


def _memory(name: str, source: Any) -> Memory:
    held, offset, queue = source, 0, None
    if hasattr(source, "base_data"):  # an array
        held, offset, queue = source.base_data, source.offset, source.queue
    context = getattr(held, "context", None) if isinstance(held, cl.MemoryObject) else None
    if context is None and queue is not None:
        context = queue.context
    return Memory(name, held, offset, context, queue)


def place(found: Sequence[Memory], wanted: str, kernel: str) -> Device:
    """The device to launch on: that of the memory, with the first array's queue, else `wanted`.

    Raises `ArgumentValueError` for memory of several contexts.
    """
    placed = [memory for memory in found if memory.context is not None]
    if not placed:
        return devices.chosen(wanted)
    first = next((memory for memory in placed if memory.queue is not None), placed[0])
    for memory in placed:
        if memory.context != first.context:
            raise ArgumentValueError(
                f"arguments {first.name!r} and {memory.name!r} of {kernel}() are in different "
                "OpenCL contexts, and a kernel runs in one; make both with one context or queue"
            )
    own = devices.chosen(wanted)
    if first.queue is None and own.context == first.context:
        return own
    return devices.USERS.of(first.context, first.queue)


def settle(found: Sequence[Memory], device: Device) -> None:
    """Wait for what was enqueued on other queues for the memory of a launch."""
    for queue in {memory.queue for memory in found} - {None, device.queue}:
        queue.finish()
