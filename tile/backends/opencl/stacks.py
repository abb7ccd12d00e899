"""The size of the stacks that a process gives its new threads, on systems with glibc."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_ATTRIBUTES_BYTES = 64  # pthread_attr_t has 56 on x86-64, 64 on AArch64


@contextmanager
def thread_stacks(size: int) -> Iterator[None]:
    """Give threads that start meanwhile at least so many bytes of stack, if they ask for no size.

    Libraries that start threads in C often ask for none. Elsewhere than with glibc, or where it
    refuses the size, nothing changes.

    size: bytes, of which the operating system takes the pages that are written.
    """
    library = ctypes.CDLL(None)
    before = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    if not hasattr(library, "pthread_setattr_default_np"):
        yield
        return
    if library.pthread_getattr_default_np(before):
        yield
        return
    default = ctypes.c_size_t()
    library.pthread_attr_getstacksize(before, ctypes.byref(default))
    _set(library, max(size, default.value))
    try:
        yield
    finally:
        _set(library, default.value)
        library.pthread_attr_destroy(before)


def _set(library: ctypes.CDLL, size: int) -> None:
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    if library.pthread_getattr_default_np(attributes):
        return
    library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    library.pthread_setattr_default_np(attributes)
    library.pthread_attr_destroy(attributes)
