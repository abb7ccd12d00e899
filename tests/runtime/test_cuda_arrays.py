"""Arrays of a real CUDA device, run on copies by the interpreter. Skipped if there is none."""

from __future__ import annotations

import numpy as np
import pytest

import tile
from tests.runtime.kernels import add, copy_pair, scale
from tile.errors import ArgumentValueError


@pytest.fixture(autouse=True)
def _interpreted():
    with tile.backend("interp"):
        yield


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return module


@pytest.fixture
def cupy():
    module = pytest.importorskip("cupy")
    try:
        module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError:
        pytest.skip("CuPy sees no CUDA device")
    return module


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int64", "uint8"])
def test_torch_cuda_launch(torch, name: str) -> None:
    dtype = getattr(torch, name)
    x, y = torch.arange(100, device="cuda").to(dtype), torch.ones(100, device="cuda").to(dtype)
    out = torch.zeros_like(x)
    kernel = add[4,](x, y, out, 100, BLOCK=32)
    assert torch.equal(out, x + y)
    assert kernel.target.backend == "interp"


def test_torch_cuda_strides_and_gradients(torch) -> None:
    whole = torch.arange(12.0 * 14, device="cuda").reshape(12, 14)
    expected = whole.clone()
    expected[1::2, ::3] *= 2
    view = whole[1::2, ::3].requires_grad_()
    scale[view.shape[0],](view, *view.shape, *view.stride(), 2.0)
    assert torch.equal(whole, expected)


def test_torch_cuda_views_share_memory(torch) -> None:
    memory = torch.arange(64.0, device="cuda")
    expected = memory.clone()
    expected[1:33] = memory[:32]
    copy_pair[1,]((memory, memory[1:]), 32, BLOCK=32)
    assert torch.equal(memory, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_cupy_launch(cupy, dtype) -> None:
    x = cupy.arange(128).astype(dtype).reshape(8, 16)
    out = cupy.zeros((8, 16), dtype)
    copy_pair[1,]((x, out), 128, BLOCK=128)
    assert (out == x).all()


def test_cupy_strides(cupy) -> None:
    whole = cupy.arange(12 * 14, dtype=np.float32).reshape(12, 14)
    expected = whole.copy()
    expected[::2, ::-3] *= 2
    view = whole[::2, ::-3]
    row, col = (stride // 4 for stride in view.strides)
    scale[view.shape[0],](view, *view.shape, row, col, 2.0)
    assert (whole == expected).all()


def test_numba_launch(cupy) -> None:
    cuda = pytest.importorskip("numba.cuda")
    x = cuda.to_device(np.arange(64, dtype=np.float32))
    out = cuda.to_device(np.zeros(64, np.float32))
    copy_pair[1,]((x, out), 64, BLOCK=64)
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(64))


def test_jax_arrays_can_be_read_and_not_written(cupy) -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(64, dtype=np.float32)
    if not hasattr(x, "__cuda_array_interface__"):
        pytest.skip("JAX sees no CUDA device")
    out = np.zeros(64, np.float32)
    copy_pair[1,]((x, out), 64, BLOCK=64)
    np.testing.assert_array_equal(out, np.arange(64))
    with pytest.raises(ArgumentValueError, match=r"'pair\[1\]' of copy_pair\(\) is read-only"):
        copy_pair[1,]((out, x), 64, BLOCK=64)
