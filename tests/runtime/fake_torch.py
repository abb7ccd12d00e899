"""A stand-in for torch with tensors on CUDA devices, whose memory is the host's."""

from __future__ import annotations

import functools
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest


class Device(NamedTuple):
    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


class DType(NamedTuple):
    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"

    @property
    def itemsize(self) -> int:
        return np.dtype(self.name).itemsize


dtype_of = functools.cache(DType)


class Tensor:
    """A tensor; only what launches look at."""

    layout = "torch.strided"
    is_meta = False
    requires_grad = False
    _version = 0

    def __init__(self, array: np.ndarray, device: int = 0) -> None:
        self.array = array
        self.device = Device("cuda", device)
        self.dtype = dtype_of(array.dtype.name)  # one object for each, as in torch
        self.shape = array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def get_device(self) -> int:
        return self.device.index if self.device.type != "cpu" else -1

    def detach(self) -> Tensor:
        return self

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def new_empty(self, shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        return Tensor(aligned_as(shape, dtype or self.dtype), self.device.index)

    def new_empty_strided(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType | None = None
    ) -> Tensor:
        made = self.new_empty(shape, dtype)
        assert made.stride() == strides
        return made


class Parameter(Tensor):
    pass


for kind in (Tensor, Parameter, Device, DType):
    kind.__module__ = "torch"


def install(monkeypatch: pytest.MonkeyPatch, accelerator: str = "cuda") -> Any:
    """Put it in torch's place. `streams` of the result is the current stream of each device."""
    torch: Any = ModuleType("torch")
    torch.Tensor = Tensor
    torch.empty_like = lambda tensor: tensor.new_empty(tensor.shape)
    for name in ("float16", "float32", "int32"):
        setattr(torch, name, DType(name))
    torch.nn = SimpleNamespace(Parameter=Parameter)
    torch.cuda = SimpleNamespace(is_initialized=lambda: True)
    torch.accelerator = SimpleNamespace(current_accelerator=lambda: Device(accelerator, 0))
    torch.streams = {}
    torch.is_grad_enabled = lambda: True
    torch._C = SimpleNamespace(
        _cuda_getCurrentRawStream=lambda at: torch.streams.get(at, 0),
        _increment_version=_increment_version,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def _increment_version(tensors: tuple[Tensor, ...]) -> None:
    for tensor in tensors:
        tensor._version += 1


def aligned(size: int, dtype: Any = np.float32, shift: int = 0) -> np.ndarray:
    """Zeros at an address that is `shift` elements after one divisible by 16."""
    raw = np.zeros(size * 8 + 256, np.uint8)
    start = -raw.ctypes.data % 16 + shift * np.dtype(dtype).itemsize
    return raw[start : start + size * np.dtype(dtype).itemsize].view(dtype)


def aligned_as(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Return a new array at an aligned address, as of torch's allocator."""
    return aligned(math.prod(shape), np.dtype(dtype.name)).reshape(shape)
