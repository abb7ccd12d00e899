"""Arrays of zeros that occupy memory only where they are touched, page by page."""

from __future__ import annotations

import mmap
import sys

import numpy as np

from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array
from tile.errors import ArgumentValueError

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
