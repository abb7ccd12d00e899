from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tile
from tests.runtime.kernels import add, gather_rows, scale
from tile.errors import ArgumentTypeError
from tile.runtime.arguments.adapt import MockArray, adapt
from tile.runtime.arguments.device_arrays import DeviceArray, host_copies
from tile.runtime.arguments.torch_tensors import torch_device_array
from tile.runtime.specialize import Rule, constant, runtime_key

torch = pytest.importorskip("torch")
LABEL = "argument 'x' of add()"

DTYPES = {
    "bool": "i1",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}


@pytest.mark.parametrize("name", DTYPES)
def test_torch_tensors_share_their_memory(name: str) -> None:
    tensor = torch.tensor([1, 0, 1, 1, 0, 1], dtype=torch.float32).to(getattr(torch, name))
    view = adapt(tensor, LABEL)
    assert type(view) is np.ndarray
    assert runtime_key(view, Rule(LABEL, alignment=False)) == f"*{DTYPES[name]}"
    assert view.astype(np.float32).tolist() == [1, 0, 1, 1, 0, 1]
    view[1] = 1
    assert tensor.to(torch.float32).tolist() == [1, 1, 1, 1, 0, 1]


def test_torch_strides_offsets_and_scalars() -> None:
    tensor = torch.arange(24).reshape(4, 6)
    view = adapt(tensor.T[1:, ::2], LABEL)
    assert view.strides == (8, 96)
    np.testing.assert_array_equal(view, np.arange(24).reshape(4, 6).T[1:, ::2])
    assert adapt(torch.tensor(5), LABEL).shape == ()
    assert adapt(torch.empty(0, 3), LABEL).shape == (0, 3)
    assert adapt(torch.zeros(3, 1).expand(3, 4), LABEL).strides == (4, 0)
    bf16 = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6).T[::2]
    assert adapt(bf16, LABEL).astype(int).tolist() == bf16.int().tolist()


def test_torch_gradients_are_not_followed() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    adapt(tensor, LABEL)[0] = 7
    assert tensor.tolist() == [7, 0, 0]
    adapt(torch.nn.Parameter(tensor.detach()), LABEL)[1] = 8
    assert tensor.tolist() == [7, 8, 0]


def test_torch_dtypes_stand_for_arrays() -> None:
    for name, alias in DTYPES.items():
        mock = adapt(getattr(torch, name), LABEL)
        assert type(mock) is MockArray
        assert runtime_key(mock, Rule(LABEL)) == f"*{alias}:16"


def test_torch_sizes_are_tuples() -> None:
    assert type(adapt(torch.zeros(2, 3).shape, LABEL)) is tuple
    assert constant(torch.zeros(2, 3).shape, LABEL) == (2, 3)
    assert type(constant(torch.zeros(2, 3).shape, LABEL)) is tuple


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.zeros(3).to_sparse(), "layout torch.sparse_coo; kernels take dense ones"),
        (lambda: torch.zeros(3, device="meta"), "on the meta device, which has no memory"),
        (lambda: torch.zeros(3, dtype=torch.complex64), "complex numbers"),
        (lambda: torch.zeros(3, dtype=torch.complex64).conj().imag, "not a plain array"),
        (lambda: torch.complex64, "complex numbers"),
        (lambda: torch.quint8, "dtype torch.quint8, which kernels do not support"),
        (lambda: torch.quint8, LABEL),
        (lambda: torch.device("cpu"), "is of type device; a kernel takes arrays"),
        (lambda: torch.nn.ReLU(), "is of type ReLU; a kernel takes arrays"),
    ],
)
def test_torch_refusals(make, words: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        runtime_key(adapt(make(), LABEL), Rule(LABEL))
    assert words in str(caught.value)


def test_torch_tensors_are_no_constants() -> None:
    with pytest.raises(ArgumentTypeError, match=r"given an array \(Tensor\)"):
        constant(torch.tensor(3), LABEL)


def test_torch_pointers() -> None:
    tensors = [torch.arange(3, dtype=torch.bfloat16), torch.arange(5, dtype=torch.bfloat16)]
    made = tile.pointers(tensors)
    assert made.tolist() == [tensor.data_ptr() for tensor in tensors]
    assert [target.dtype for target in made.targets] == [np.dtype(ml_dtypes.bfloat16)] * 2
    assert runtime_key(made, Rule(LABEL, alignment=False)) == "**bf16"


# -- tensors of a device, with the CPU in the place of one


@pytest.mark.parametrize("name", DTYPES)
def test_torch_device_copies(name: str) -> None:
    dtype = getattr(torch, name)
    storage = torch.tensor([1, 0] * 12, dtype=torch.float32).to(dtype)
    tensor = storage.reshape(4, 6).T[1:, ::2]
    device = torch_device_array(tensor, LABEL)
    assert type(device) is DeviceArray
    assert runtime_key(device, Rule(LABEL, alignment=False)) == f"*{DTYPES[name]}"
    (host,) = host_copies([device])
    assert host.strides == device.strides
    assert host.astype(np.float32).tolist() == tensor.float().tolist()
    before = storage.float().clone()
    host[...] = 1
    device.put(host)
    changed = storage.float() != before
    assert (tensor.float() == 1).all()
    assert changed.sum() == (before.reshape(4, 6).T[1:, ::2] == 0).sum()


def test_torch_device_copies_of_expanded_tensors() -> None:
    storage = torch.arange(3.0)
    device = torch_device_array(storage[:, None].expand(3, 4), LABEL)
    (host,) = host_copies([device])
    assert host.tolist() == [[0.0] * 4, [1.0] * 4, [2.0] * 4]
    host[1] = 7
    device.put(host)
    assert storage.tolist() == [0, 7, 2]


def test_torch_device_copies_share_what_the_tensors_share() -> None:
    storage = torch.arange(12.0)
    whole, part = (torch_device_array(t, LABEL) for t in (storage, storage[4:8]))
    host_whole, host_part = host_copies([whole, part])
    host_part[0] = 99
    assert host_whole[4] == 99


def test_torch_device_copies_need_no_gradients() -> None:
    tensor = torch.zeros(3, requires_grad=True)
    device = torch_device_array(tensor, LABEL)
    device.put(np.full(3, 5, np.float32))
    assert tensor.tolist() == [5, 5, 5]


# -- launches


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int32", "float64"])
def test_torch_launch(name: str) -> None:
    dtype = getattr(torch, name)
    x, y = torch.arange(100).to(dtype), torch.arange(100).flip(0).to(dtype)
    out = torch.zeros_like(x)
    kernel = add[lambda meta: (tile.cdiv(meta["n"], meta["BLOCK"]),)](
        x, y, out, x.numel(), BLOCK=32
    )
    assert torch.equal(out, x + y)
    assert kernel.written == {"out_ptr"}


def test_torch_launch_on_a_strided_view() -> None:
    whole = torch.arange(12 * 14, dtype=torch.bfloat16).reshape(12, 14)
    expected = whole.clone()
    expected[1::2, ::3] *= 2
    view = whole[1::2, ::3]
    scale[view.shape[0],](view, *view.shape, *view.stride(), 2.0)
    assert torch.equal(whole, expected)


def test_torch_launch_through_pointers() -> None:
    rows = [torch.arange(8.0) * k for k in (1, 2)]
    out = torch.zeros(2, 8)
    gather_rows[2,](tile.pointers(rows[::-1]), out, BLOCK=8)
    assert torch.equal(out, torch.stack(rows[::-1]))


def test_torch_warmup() -> None:
    kernel = add.warmup(torch.float32, torch.float32, torch.float32, 100, BLOCK=32)
    assert kernel.signature["out_ptr"] == "*fp32:16"


def test_torch_constants() -> None:
    with pytest.raises(ArgumentTypeError, match=r"argument 'BLOCK' of add.* given an array"):
        add[1,](*[torch.zeros(3)] * 3, 3, BLOCK=torch.tensor(4))


def test_torch_is_not_imported_for_numpy_arrays() -> None:
    code = (
        "import sys, numpy as np\n"
        "from tests.runtime.kernels import add\n"
        "x = np.zeros(16, np.float32)\n"
        "add[1,](x, x, x, 16, BLOCK=16)\n"
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
