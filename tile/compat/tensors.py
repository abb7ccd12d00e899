"""`reinterpret`: tensors that kernels see with another element type of the same size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import Scalar
from tile.runtime.arguments.adapt import Adaptable, MockArray, adapt
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.short_repr import short_repr
from tile.tracebacks import public_function


class TensorWrapper(Adaptable):
    """A tensor with another element type; `base` is the tensor and `dtype` the type."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base = base
        self.dtype = dtype
        self.shape = base.shape
        self.device = getattr(base, "device", "cpu")
        self.data = getattr(base, "data", None)

    def adapted(self, label: str) -> Any:
        """Return the tensor as a launch argument of the other type."""
        array = adapt(self.base, label)
        element = MockArray(self.dtype).element
        assert isinstance(element, Scalar), "a dtype is no pointer"
        dtype = numpy_dtype(element)
        if dtype.itemsize != array.dtype.itemsize:
            raise ArgumentTypeError(
                f"{label} has elements of {array.dtype.itemsize} bytes, and {element.alias} has "
                f"{dtype.itemsize}"
            )
        return replace(array, dtype=dtype) if isinstance(array, DeviceArray) else array.view(dtype)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        base = self.base
        return int(base.ctypes.data if isinstance(base, np.ndarray) else base.data_ptr())

    def stride(self, *args: int) -> Any:
        return self.base.stride(*args)

    def element_size(self) -> int:
        return int(self.base.element_size())

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self) -> TensorWrapper:
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        self.base.copy_(other.base)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


@public_function
def reinterpret(tensor: Any, dtype: Any) -> Any:
    """Return a tensor that kernels see with elements of `dtype`, which has the same size.

    Raises `ArgumentTypeError` for an object that is not an array.
    """
    if isinstance(tensor, TensorWrapper):
        own = getattr(tensor.base, "dtype", None)
        return tensor.base if dtype == own else TensorWrapper(tensor.base, dtype)
    if not (hasattr(tensor, "data_ptr") or isinstance(tensor, np.ndarray)):
        raise ArgumentTypeError(f"reinterpret takes an array, not {short_repr(tensor)}")
    return TensorWrapper(tensor, dtype)
