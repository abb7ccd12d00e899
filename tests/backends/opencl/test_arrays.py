"""Memory of OpenCL as arguments: accessed in place, on its own queue; what is refused of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl
import pyopencl.array as cl_array

import tile
import tile.language as tl
from tile.backends.opencl import devices
from tile.errors import ArgumentTypeError, ArgumentValueError

Queues = Callable[[], cl.CommandQueue]

pytestmark = pytest.mark.usefixtures("runtime")


@tile.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@pytest.fixture
def queue(runtime: None) -> Queues:
    """Makes queues in contexts of their own, which Intel's runtime does not keep for its queues."""
    contexts = []

    def make() -> cl.CommandQueue:
        contexts.append(cl.Context([devices.chosen().raw]))
        return cl.CommandQueue(contexts[-1])

    return make


def test_arrays_choose_the_backend_and_their_queue(queue: Queues) -> None:
    own = queue()
    host = np.arange(1000, dtype=np.float32)
    x = cl_array.to_device(own, host)
    y = cl_array.empty_like(x)
    kernel = double[(4,)](x, y, 1000, BLOCK=256)
    assert kernel.target.backend == "opencl"
    np.testing.assert_array_equal(y.get(), host * 2)


def test_parts_of_arrays(queue: Queues) -> None:
    own = queue()
    x = cl_array.to_device(own, np.arange(2048, dtype=np.float32))
    y = cl_array.zeros_like(x)
    double[(4,)](x[1024:], y[512:], 1000, BLOCK=256)
    expected = np.zeros(2048, np.float32)
    expected[512:1512] = 2 * np.arange(1024, 2024)
    np.testing.assert_array_equal(y.get(), expected)


def test_buffers_are_bytes(queue: Queues) -> None:
    own = queue()
    host = np.arange(100, dtype=np.uint8)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    x, y = (cl.Buffer(own.context, flags, hostbuf=host) for _ in "xy")
    double[(1,)](x, y, 100, BLOCK=128)
    actual = np.empty_like(host)
    devices.USERS.of(own.context, None).queue.finish()
    cl.enqueue_copy(own, actual, y)
    np.testing.assert_array_equal(actual, host * 2)


def test_device_arrays_with_host_arrays(queue: Queues) -> None:
    host = np.arange(1000, dtype=np.int32)
    x = cl_array.to_device(queue(), host)
    y = np.zeros_like(host)
    double[(4,)](x, y, 1000, BLOCK=256)
    np.testing.assert_array_equal(y, host * 2)


def test_shared_virtual_memory() -> None:
    if not devices.chosen().host_memory:
        pytest.skip("the device does not share the host's memory")
    host, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    double[(1,)](cl.SVM(host), cl.SVM(out), 256, BLOCK=256)
    devices.chosen().queue.finish()
    np.testing.assert_array_equal(out, host * 2)


def test_allocations_of_shared_virtual_memory() -> None:
    """Bytes, which do not say whose they are: those of the chosen device's context."""
    device = devices.chosen()
    coarse = cl.device_svm_capabilities.COARSE_GRAIN_BUFFER
    try:
        there = bool(device.raw.svm_capabilities & coarse)
    except cl.Error:
        there = False
    if not there:
        pytest.skip("the device has no shared virtual memory")
    host, actual = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    access = cl.svm_mem_flags.READ_WRITE
    x, y = (cl.SVMAllocation(device.context, 100, 0, access) for _ in "xy")
    cl.enqueue_copy(device.queue, x, host)
    double[(1,)](x, y, 100, BLOCK=128)
    cl.enqueue_copy(device.queue, actual, y)
    device.queue.finish()
    np.testing.assert_array_equal(actual, host * 2)


@tile.jit
def add_through(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first, second = tl.load(table_ptr), tl.load(table_ptr + 1)
    total = tl.load(first + at, mask=at < n) + tl.load(second + at, mask=at < n)
    tl.store(first + at, total, mask=at < n)
    tl.store(out_ptr + at, total, mask=at < n)


def pointed() -> tuple[list[np.ndarray], np.ndarray]:
    return [np.arange(60, dtype=np.float32) + i for i in range(2)], np.zeros(60, np.float32)


def test_arrays_of_pointers_are_followed() -> None:
    if not devices.chosen().host_memory:
        pytest.skip("the device does not share the host's memory")
    inner, out = pointed()
    with tile.backend("opencl"):
        add_through[(1,)](tile.pointers(inner), out, 60, BLOCK=64)
    np.testing.assert_array_equal(out, 2 * np.arange(60) + 1)
    np.testing.assert_array_equal(inner[0], out)


def test_arrays_of_pointers_are_refused_where_memory_is_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = replace(devices.chosen(), host_memory=False)
    monkeypatch.setattr(devices, "chosen", lambda name="": apart)
    inner, out = pointed()
    with (
        tile.backend("opencl"),
        pytest.raises(ArgumentTypeError, match=r"'table_ptr' of .* array of pointers, .* has none"),
    ):
        add_through[(1,)](tile.pointers(inner), out, 60, BLOCK=64)
    assert not out.any() and (inner[0] == np.arange(60)).all()


def test_other_backends_get_copies(queue: Queues) -> None:
    host = np.arange(256, dtype=np.float32)
    x = cl_array.to_device(queue(), host)
    y = cl_array.zeros_like(x)
    with tile.backend("interp"):
        double[(1,)](x, y, 256, BLOCK=256)
    np.testing.assert_array_equal(y.get(), host * 2)


def test_arrays_of_two_contexts_are_refused(queue: Queues) -> None:
    x, y = (cl_array.to_device(queue(), np.ones(256, np.float32)) for _ in "xy")
    with pytest.raises(
        ArgumentValueError, match=r"'x_ptr' and 'y_ptr' .* different OpenCL contexts"
    ):
        double[(1,)](x, y, 256, BLOCK=256)
    assert (y.get() == 1).all()


def test_what_is_no_memory_is_refused(queue: Queues) -> None:
    with pytest.raises(ArgumentTypeError, match="CommandQueue of pyopencl; a kernel takes"):
        double[(1,)](queue(), np.ones(4, np.float32), 4, BLOCK=16)


def test_a_buffer_for_another_backend_is_refused(queue: Queues) -> None:
    buffer = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, 64)
    with tile.backend("interp"), pytest.raises(ArgumentTypeError, match=r"Buffer .* has no queue"):
        double[(1,)](buffer, buffer, 4, BLOCK=16)


def test_devices_by_the_target() -> None:
    host, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    for index in range(len(devices.all_devices())):
        with tile.backend(f"opencl:{index}"):
            double[(1,)](host, out, 256, BLOCK=256)
        np.testing.assert_array_equal(out, host * 2)
