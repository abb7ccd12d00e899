"""Arrays in a device's memory, run on copies by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tile
from tests.runtime.fake_cuda import CudaArray, CudaArrayWithoutSetter
from tests.runtime.kernels import add, copy_pair, scale


@pytest.fixture(autouse=True)
def _interpreted():
    with tile.backend("interp"):
        yield


def test_results_come_back_and_only_what_was_written() -> None:
    x, y, out = np.arange(64.0), np.ones(64), np.zeros(64)
    on_device = [CudaArray(a) for a in (x, y, out)]
    kernel = add[1,](*on_device, 64, BLOCK=64)
    np.testing.assert_array_equal(out, x + 1)
    assert [a.sets for a in on_device] == [0, 0, 1]
    assert kernel.target.backend == "interp"


def test_arrays_of_both_memories() -> None:
    x, y, out = np.arange(64.0), np.ones(64), np.zeros(64)
    add[1,](CudaArrayWithoutSetter(x), y, CudaArray(out), 64, BLOCK=64)
    np.testing.assert_array_equal(out, x + 1)


def test_strided_arrays() -> None:
    whole = np.arange(12 * 14, dtype=np.float32).reshape(12, 14)
    expected = whole.copy()
    expected[::2, ::-3] *= 2
    view = whole[::2, ::-3]
    row, col = (stride // 4 for stride in view.strides)
    scale[view.shape[0],](CudaArray(view), *view.shape, row, col, 2.0)
    np.testing.assert_array_equal(whole, expected)


def test_views_of_one_array_share_memory() -> None:
    """A program reads through one view what it wrote through the other, as on the device."""
    memory = np.arange(64, dtype=np.float32)
    expected = memory.copy()
    expected[1:33] = expected[0:32]
    copy_pair[1,]((CudaArray(memory), CudaArray(memory[1:])), 32, BLOCK=32)
    np.testing.assert_array_equal(memory, expected)


def test_an_empty_array() -> None:
    empty = np.zeros(0, np.float32)
    add[1,](CudaArray(empty), CudaArray(empty), CudaArray(empty), 0, BLOCK=16)
