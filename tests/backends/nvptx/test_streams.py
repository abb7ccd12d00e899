"""The streams of launches on arrays of other libraries than torch, with a driver that is posed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tile
from tests.backends.nvptx.fake_driver import FakeDriver, new_kernel
from tests.runtime.fake_cuda import CudaArray
from tests.runtime.fake_torch import Tensor, aligned, install
from tile.errors import ArgumentTypeError


class OnStream(CudaArray):
    """An array of a library that exports its current stream, as CuPy and Numba do."""

    stream: Any = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**super().__cuda_array_interface__, "stream": self.stream}


@pytest.fixture
def posed(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    monkeypatch.delenv("TILE_BACKEND", raising=False)
    return FakeDriver((9, 0)).install(monkeypatch)


def arrays(*streams: Any) -> list[OnStream]:
    made = []
    for stream in streams:
        made.append(OnStream(np.ones(64, np.float32)))
        made[-1].stream = stream
    return made


@pytest.mark.parametrize(
    ("named", "used"), [(77, 77), (1, 0), (2, 2), (np.uint64(2**63 + 8), 2**63 + 8), (None, 0)]
)
def test_a_launch_is_on_the_stream_that_the_arrays_name(posed: FakeDriver, named, used) -> None:
    kernel = new_kernel()
    for _ in range(2):
        kernel[1,](*arrays(named, named), 64, B=64)
    assert posed.streams == [used, used]
    assert posed.waits == []


def test_the_stream_is_asked_for_at_each_launch(posed: FakeDriver) -> None:
    kernel, (x, y) = new_kernel(), arrays(5, 5)
    for stream in (5, 6, 5):
        x.stream = y.stream = stream
        kernel[1,](x, y, 64, B=64)
    assert posed.streams == [5, 6, 5]


def test_an_array_without_a_stream_is_ready_on_any(posed: FakeDriver) -> None:
    new_kernel()[1,](*arrays(None, 9), 64, B=64)
    assert posed.streams == [9] and posed.waits == []


def test_arrays_on_two_streams_make_the_launch_wait(posed: FakeDriver) -> None:
    """For the other stream before it, and for its own after it."""
    new_kernel()[1,](*arrays(9, 8), 64, B=64)
    assert posed.streams == [8] and posed.waits == [9, 8]


def test_torch_beside_another_library(posed: FakeDriver, monkeypatch) -> None:
    torch = install(monkeypatch)
    torch.streams[0] = 4
    (x,) = arrays(9)
    new_kernel()[1,](x, Tensor(aligned(64)), 64, B=64)
    assert posed.streams == [4] and posed.waits == [9, 4]
    (x,) = arrays(4)
    new_kernel()[1,](x, Tensor(aligned(64)), 64, B=64)
    assert posed.streams == [4, 4] and posed.waits == [9, 4]


def test_cupy_where_it_exports_no_stream(posed: FakeDriver, monkeypatch) -> None:
    """With CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION=2 there is none: the current one is used."""
    current = SimpleNamespace(ptr=12)
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: current))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    kind = type("ndarray", (CudaArray,), {"__module__": "cupy"})
    new_kernel()[1,](kind(np.ones(64, np.float32)), kind(np.ones(64, np.float32)), 64, B=64)
    assert posed.streams == [12]


@pytest.mark.parametrize("stream", [0, -1, "main", 1 << 64])
def test_a_stream_that_is_none(stream) -> None:
    message = r"'stream' in `__cuda_array_interface__` of .* is .*; it is None, 1 for the default"
    with tile.backend("interp"), pytest.raises(ArgumentTypeError, match=message):
        new_kernel()[1,](*arrays(stream, None), 64, B=64)
