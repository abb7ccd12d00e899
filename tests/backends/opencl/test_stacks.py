"""Stacks of the threads that libraries start."""

from __future__ import annotations

import ctypes

import pytest

pytest.importorskip("pyopencl")

from tile.backends.opencl.devices import thread_stacks


def default_stack() -> int:
    library = ctypes.CDLL(None)
    if not hasattr(library, "pthread_getattr_default_np"):
        pytest.skip("this C library has no default attributes of threads")
    attributes, size = ctypes.create_string_buffer(64), ctypes.c_size_t()
    assert library.pthread_getattr_default_np(attributes) == 0
    library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    return size.value


def test_new_threads_get_larger_stacks_meanwhile() -> None:
    before = default_stack()
    with thread_stacks(before * 2):
        assert default_stack() == before * 2
    assert default_stack() == before


def test_a_larger_default_is_kept() -> None:
    before = default_stack()
    with thread_stacks(before // 2):
        assert default_stack() == before


def test_the_default_returns_after_an_error() -> None:
    before = default_stack()
    with pytest.raises(ValueError, match="within"), thread_stacks(before * 2):
        raise ValueError("within")
    assert default_stack() == before
