"""Atomic operations on 8 and 16 bits at the ends of arrays that are no whole words of 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import tile
import tile.language as tl
from tile.backends.opencl import devices
from tile.backends.opencl.host_staging import StagedRange
from tile.errors import BackendError


@tile.jit
def count(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + at, at.to(x_ptr.dtype.element_ty), mask=at < n)


@pytest.fixture(params=["intel", "portable", "oclgrind"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch on an OpenCL runtime for CPUs, if it is installed."""
    try:
        devices.index_of(f"@{request.param}")
    except BackendError:
        pytest.skip(f"no device of {request.param}")
    monkeypatch.setenv("TILE_BACKEND", f"opencl:@{request.param}")


@pytest.mark.parametrize("dtype", [np.int8, np.uint16])
@pytest.mark.parametrize(("first", "last"), [(0, 6), (1, 7), (3, 4), (2, 8), (5, 16), (0, 8)])
@pytest.mark.usefixtures("runtime")
def test_elements_of_partial_words(dtype: type, first: int, last: int) -> None:
    array = np.arange(100, 116).astype(dtype)
    expected = array.copy()
    expected[first:last] += np.arange(last - first).astype(dtype)
    count[1,](array[first:last], last - first, BLOCK=16)
    np.testing.assert_array_equal(array, expected)


def test_whole_words_are_not_copied() -> None:
    device = devices.opened(0)
    array = np.zeros(32, np.int8)
    start = array.ctypes.data + -array.ctypes.data % 4
    for offset, size, whole in ((0, 8, True), (0, 6, False), (1, 8, False), (4, 4, True)):
        staged = StagedRange(start + offset, start + offset + size, written=True)
        staged.stage(device)
        assert staged.whole_words is whole
        assert staged.shared is (whole and device.shares_memory)
        assert staged.buffer.size == (size + 3) // 4 * 4
