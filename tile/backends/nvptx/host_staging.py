"""Host arrays, copied to the device for a launch and back after it, on the current stream.

Views of one array keep sharing memory: arrays whose bytes overlap are copied as one span, from the
first byte to the last. An array of pointers is copied with the device addresses of its targets.

Streams are those of the libraries that own the arrays, which are found without importing them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.backends.host_memory import Array, HostRange, merged_ranges, range_at
from tile.backends.nvptx import driver
from tile.errors import ArgumentValueError

# The addresses of a copy and of its host array are congruent modulo this, so that what is known of
# an array's alignment holds for its copy.
ALIGNMENT = 256


@dataclass
class StagedCopy(HostRange):
    """A span of host memory, and its copy on the device."""

    base: int = 0  # address of the allocation
    shift: int = 0  # device address minus host address


@dataclass
class Staging:
    """The copies of one launch. `close` frees them."""

    stream: int
    copies: list[StagedCopy] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)  # copies of arrays of pointers

    def stage(self, arrays: Sequence[Array], written: Sequence[bool]) -> None:
        """Copy arrays, and all that they point to; `written` tells which are copied back."""
        self.copies = merged_ranges(
            StagedCopy,
            (
                (target, changes)
                for array, changes in zip(arrays, written, strict=True)
                for target in _leaves(array)
            ),
        )
        for copy in self.copies:
            copy.base = driver.allocate(copy.size + ALIGNMENT)
            address = copy.base + (copy.low - copy.base) % ALIGNMENT
            copy.shift = address - copy.low
            driver.to_device(address, copy.low, copy.size, self.stream)

    def address(self, array: Array) -> int:
        """Return the device address of an array's first element; 0 for an empty array."""
        if array.size == 0:
            return 0
        if getattr(array, "targets", None) is None:
            return self._device_address(array.ctypes.data)
        if not array.flags.c_contiguous:
            raise ArgumentValueError(
                "an array of pointers that is copied to a device is contiguous; "
                f"this one has strides {array.strides}"
            )
        pointers = array.view(np.int64).ravel()
        flat = np.array([self._device_address(int(x)) for x in pointers], np.int64)
        table = driver.allocate(flat.nbytes)
        self.tables.append(table)
        driver.to_device(table, flat.ctypes.data, flat.nbytes, self.stream)
        driver.wait(self.stream, "copying an array of pointers")  # `flat` is freed on return
        return table

    def _device_address(self, address: int) -> int:
        """Return the device address for a host address; an address outside all copies itself."""
        copy = range_at(self.copies, address)
        return address if copy is None else address + copy.shift

    def fetch(self) -> None:
        """Copy back what is written."""
        for copy in self.copies:
            if copy.written:
                driver.to_host(copy.low, copy.low + copy.shift, copy.size, self.stream)

    def close(self) -> None:
        """Free the copies."""
        for address in [*(copy.base for copy in self.copies if copy.base), *self.tables]:
            driver.free(address)


def _leaves(array: Array) -> Iterator[Array]:
    """Yield the arrays that hold numbers: the array itself, or those that it points to."""
    targets = getattr(array, "targets", None)
    if targets is None:
        yield array
        return
    for target in targets:
        yield from _leaves(target)


DEFAULT = 0
LEGACY = 1  # what `__cuda_array_interface__` calls the default stream


def current_streams(arrays: Iterable[object], ordinal: int) -> list[int]:
    """Return the streams on which the contents of arrays are ready, each once; at least one.

    That is the stream that an array names, or the current one of the library that owns it. Other
    arrays are ready on any. Without a stream it is torch's, if the program uses torch on a GPU.
    """
    streams = {stream for array in arrays for stream in _streams(array, ordinal)}
    return sorted(streams) or [_torch_stream(ordinal) or DEFAULT]


def _streams(array: object, ordinal: int) -> Iterator[int]:
    """Yield the stream of one array, if it has one."""
    stream = getattr(array, "stream", None)
    root = type(getattr(array, "source", None)).__module__.partition(".")[0]
    if root == "torch":
        stream = _torch_stream(ordinal)
    elif stream is None and root == "cupy":
        stream = int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    if stream is not None:
        yield DEFAULT if stream == LEGACY else stream


def _torch_stream(ordinal: int) -> int | None:
    """Return torch's current stream; None if torch does not use a GPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch._C._cuda_getCurrentRawStream(ordinal))


def stream_reader(sources: Iterable[object], ordinal: int) -> Callable[[], int] | None:
    """Return a function that returns torch's current stream; None if the arrays are not on it.

    sources: torch's tensors, or other objects with an address, which are ready on any stream.
    """
    torch: Any = sys.modules.get("torch")
    sources = list(sources)
    if torch is None or not all(hasattr(source, "data_ptr") for source in sources):
        return None
    roots = {type(source).__module__.partition(".")[0] for source in sources}
    if "torch" not in roots and not torch.cuda.is_initialized():
        return None
    return functools.partial(torch._C._cuda_getCurrentRawStream, ordinal)
