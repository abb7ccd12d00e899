"""Copies of the host's arrays, on a device that is host memory too."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import tile
from tile.backends.host_memory import span
from tile.backends.nvptx import driver
from tile.backends.nvptx.host_staging import ALIGNMENT, Staging
from tile.errors import ArgumentValueError


class HostMemory:
    """Memory that stands for a device's."""

    def __init__(self) -> None:
        self.blocks: dict[int, object] = {}

    def allocate(self, size: int) -> int:
        block = ctypes.create_string_buffer(size)
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, address: int) -> None:
        del self.blocks[address]

    def to_device(self, address: int, host: int, size: int, stream: int) -> None:
        ctypes.memmove(address, host, size)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostMemory]:
    host = HostMemory()
    for name in ("allocate", "free", "to_device"):
        monkeypatch.setattr(driver, name, getattr(host, name))
    monkeypatch.setattr(driver, "to_host", host.to_device)
    monkeypatch.setattr(driver, "wait", lambda stream, doing: None)
    yield host
    assert host.blocks == {}, "a copy was not freed"


def on_device(address: int, like: np.ndarray) -> np.ndarray:
    """The copy of an array, with the same strides."""
    low, high = span(like)
    raw = (ctypes.c_uint8 * (high - low)).from_address(address + low - like.ctypes.data)
    return np.ndarray(like.shape, like.dtype, raw, like.ctypes.data - low, like.strides)


def test_what_is_written_comes_back(memory: HostMemory) -> None:
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    staging = Staging(0)
    staging.stage([x, y], [False, True])
    a, b = (on_device(staging.address(array), array) for array in (x, y))
    np.testing.assert_array_equal(a, x)
    a[:] = -1
    b[:] = 7
    staging.fetch()
    staging.close()
    np.testing.assert_array_equal(x, np.arange(10))
    np.testing.assert_array_equal(y, np.full(10, 7))


def test_views_share_memory_and_keep_their_strides(memory: HostMemory) -> None:
    whole = np.arange(64, dtype=np.int32).reshape(8, 8)
    views = [whole[::2], whole.T, whole[::-1, 1:3], whole[5, 5:]]
    staging = Staging(0)
    staging.stage(views, [False, False, True, False])
    copies = [on_device(staging.address(view), view) for view in views]
    for view, copy in zip(views, copies):
        np.testing.assert_array_equal(view, copy)
    copies[2][0, 0] = -5  # whole[7, 1]
    assert copies[1][1, 7] == -5
    staging.fetch()
    staging.close()
    assert whole[7, 1] == -5


def test_alignment_is_preserved(memory: HostMemory) -> None:
    raw = np.zeros(4096, np.uint8)
    for shift in (0, 1, 4, 16, 100):
        view = raw[shift : shift + 64]
        staging = Staging(0)
        staging.stage([view], [False])
        assert (staging.address(view) - view.ctypes.data) % ALIGNMENT == 0
        staging.close()


def test_empty_arrays_have_no_copy(memory: HostMemory) -> None:
    empty = np.zeros((0, 4), np.float32)
    staging = Staging(0)
    staging.stage([empty], [True])
    assert staging.address(empty) == 0
    staging.fetch()
    staging.close()


def test_pointers_are_followed(memory: HostMemory) -> None:
    x, y = np.arange(4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)
    table = tile.pointers([x, y[1:]])
    staging = Staging(0)
    staging.stage([table, y], [True, False])
    addresses = np.ndarray(2, np.int64, (ctypes.c_int64 * 2).from_address(staging.address(table)))
    copies = [on_device(int(a), t) for a, t in zip(addresses, table.targets)]
    np.testing.assert_array_equal(copies[1], [5, 6, 7])
    copies[0][:] = 9
    copies[1][:] = 8
    assert on_device(staging.address(y), y)[1] == 8
    staging.fetch()
    staging.close()
    np.testing.assert_array_equal(x, [9, 9, 9, 9])
    np.testing.assert_array_equal(y, [4, 8, 8, 8])


def test_pointers_with_gaps_are_refused(memory: HostMemory) -> None:
    table = tile.pointers([np.zeros(4, np.float32)] * 4)[::2]
    staging = Staging(0)
    staging.stage([table], [False])
    with pytest.raises(ArgumentValueError, match="contiguous"):
        staging.address(table)
    staging.close()
