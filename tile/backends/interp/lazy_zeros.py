"""Arrays of zeros that take memory where they are touched, page by page."""

from __future__ import annotations

import mmap
import sys

import numpy as np

from tile.backends.interp.values import Array
from tile.errors import ArgumentValueError

# From so many bytes on, memory is asked of the system itself: without a reservation, an array may
# be larger than the machine's memory. Linux's number, which `mmap` has a name for from 3.13 on.
DIRECT = 1 << 26
NO_RESERVE = 0x4000


def lazy_zeros(count: int, dtype: type[np.generic]) -> Array:
    """Return a line of zeros, of which untouched pages take no memory.

    Raises `ArgumentValueError` where this process has no address space for it.
    """
    size = count * np.dtype(dtype).itemsize
    if size < DIRECT or sys.platform != "linux":
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
