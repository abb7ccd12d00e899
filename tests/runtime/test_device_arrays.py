from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tests.runtime.fake_cuda import CudaArray
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.device_arrays import ALIGNMENT, DeviceArray, host_copies

SIZE = 64


def on_device(array: np.ndarray) -> DeviceArray:
    return adapt(CudaArray(array), "x")


def index(draw, extent: int) -> slice:
    start, stop = sorted((draw(st.integers(0, extent)), draw(st.integers(0, extent))))
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    return slice(start, stop, step) if step > 0 else slice(stop or None, start or None, step)


@st.composite
def views(draw) -> np.ndarray:
    """A view of `memory`: of any dtype, up to two axes, any strides, maybe empty."""
    memory = draw(st.shared(st.builds(lambda: np.arange(SIZE, dtype=np.uint8)), key="memory"))
    dtype = draw(st.sampled_from([np.uint8, np.int16, np.float32]))
    typed = memory.view(dtype)
    shape = draw(st.sampled_from([(-1,), (4, -1)]))
    view = typed.reshape(shape)
    view = view[tuple(index(draw, extent) for extent in view.shape)]
    if draw(st.booleans()):
        view = view.T
    if draw(st.booleans()):
        view = as_strided(view, (2, *view.shape), (0, *view.strides))
    return view


@given(st.lists(views(), min_size=1, max_size=4))
def test_copies_look_like_the_arrays(arrays: list[np.ndarray]) -> None:
    devices = [on_device(array) for array in arrays]
    hosts = host_copies(devices)
    for array, device, host in zip(arrays, devices, hosts, strict=True):
        np.testing.assert_array_equal(host.view(), array)
        assert host.dtype == array.dtype
        if array.size:
            assert host.strides == device.strides
            assert (host.ctypes.data - array.ctypes.data) % ALIGNMENT == 0


@given(st.lists(views(), min_size=2, max_size=4), st.data())
def test_overlaps_stay_overlaps(arrays: list[np.ndarray], data) -> None:
    """A write through one copy is seen through the others exactly where the arrays share memory."""
    hosts = host_copies([on_device(array) for array in arrays])
    chosen = data.draw(st.integers(0, len(arrays) - 1))
    if arrays[chosen].size == 0:
        return
    element = tuple(data.draw(st.integers(0, extent - 1)) for extent in arrays[chosen].shape)
    memory = root(arrays[chosen])
    saved = memory.copy()
    arrays[chosen][element] = 77
    hosts[chosen][element] = 77
    try:
        for array, host in zip(arrays, hosts, strict=True):
            np.testing.assert_array_equal(host, array)
    finally:
        memory[...] = saved


def root(array: np.ndarray) -> np.ndarray:
    while array.base is not None:
        array = array.base
    return array


@given(views().filter(lambda array: array.size))
def test_putting_back_writes_the_array_and_nothing_else(array: np.ndarray) -> None:
    memory = root(array)
    saved = memory.copy()
    expected = memory.copy()
    offset = array.__array_interface__["data"][0] - memory.ctypes.data
    np.ndarray(array.shape, array.dtype, expected, offset, array.strides)[...] = 99
    device = on_device(array)
    (host,) = host_copies([device])
    host[...] = 99
    try:
        device.put(host)
        np.testing.assert_array_equal(memory, expected)
    finally:
        memory[...] = saved
