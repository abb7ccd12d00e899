"""Launches on arrays that overlap, of kernels whose pointers are `restrict` if they do not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl.array as cl_array

import tile
import tile.language as tl
from tile.backends.opencl import devices

pytestmark = pytest.mark.usefixtures("runtime", "opencl")


@pytest.fixture
def opencl(monkeypatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "opencl")


@tile.jit
def scale_in_order(x_ptr, w_ptr, out_ptr, n):
    for at in range(n):
        tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(w_ptr))


def expected_of(array: np.ndarray, x: slice, w: slice, out: slice) -> np.ndarray:
    """Return the array after the loop of the kernel, which reads what it has written."""
    result = array.copy()
    for at in range(out.stop - out.start):
        result[out][at] = result[x][at] * result[w][0]
    return result


@pytest.mark.parametrize(
    ("x", "w", "out"),
    [
        (slice(0, 64), slice(200, 201), slice(100, 164)),
        (slice(0, 64), slice(200, 201), slice(0, 64)),
        (slice(0, 64), slice(200, 201), slice(1, 65)),
        (slice(1, 65), slice(200, 201), slice(0, 64)),
        (slice(0, 64), slice(130, 131), slice(100, 164)),
    ],
    ids=["disjoint", "in place", "x before out", "x after out", "w in out"],
)
def test_each_iteration_reads_what_the_last_one_wrote(x: slice, w: slice, out: slice) -> None:
    array = (np.arange(256) % 5 - 2).astype(np.float32)
    expected = expected_of(array, x, w, out)
    disjoint = not {*range(*out.indices(256))} & {
        *range(*x.indices(256)),
        *range(*w.indices(256)),
    }
    if not (disjoint or devices.chosen().host_memory):
        pytest.skip("the device does not share the host's memory")
    for _ in range(2):
        data = array.copy()
        kernel = scale_in_order[1,](data[x], data[w], data[out], 64, num_warps=1)
        np.testing.assert_array_equal(data, expected)
    assert ("restrict" in kernel.asm["opencl"]) is disjoint
    assert kernel.signature["x_ptr"].endswith(":noalias") is disjoint


def test_arrays_of_the_runtime_have_no_addresses_to_compare() -> None:
    queue = devices.chosen().queue
    x, w, out = (cl_array.to_device(queue, np.full(64, v, np.float32)) for v in (3, 2, 0))
    kernel = scale_in_order[1,](x, w, out, 64, num_warps=1)
    np.testing.assert_array_equal(out.get(), 6)
    assert "restrict" not in kernel.asm["opencl"]


@tile.jit
def shifted(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in tl.range(0, n, BLOCK, num_stages=2):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i + 1, tl.load(x_ptr + i) * 2)


def test_threads_read_what_others_wrote_through_another_parameter() -> None:
    array = (np.arange(257) % 5 - 2).astype(np.float32)
    expected = array.copy()
    for start in range(0, 256, 64):
        expected[start + 1 : start + 65] = expected[start : start + 64] * 2
    if not devices.chosen().host_memory:
        pytest.skip("the device does not share the host's memory")
    for _ in range(2):
        data = array.copy()
        shifted[1,](data, data, 256, BLOCK=64, num_warps=4)
        np.testing.assert_array_equal(data, expected)
