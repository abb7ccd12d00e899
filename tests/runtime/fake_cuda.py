"""A stand-in for an array library of a CUDA device, as CuPy is one, whose memory is the host's."""

from __future__ import annotations

from typing import Any

import numpy as np


class CudaArray:
    """An array that only `get` and `set` read and write, as if it were on a device."""

    def __init__(self, array: np.ndarray, read_only: bool = False) -> None:
        self._array = array
        self._read_only = read_only
        self.sets = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self._array
        strides = None if array.flags.c_contiguous else array.strides
        return {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, self._read_only),
            "strides": strides,
            "version": 3,
        }

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    def get(self) -> np.ndarray:
        return self._array.copy(order="C")

    def set(self, values: np.ndarray) -> None:
        assert self._array.flags.c_contiguous, "cannot set a strided array"
        self[(slice(None),) * values.ndim] = values

    def __setitem__(self, index: object, values: np.ndarray) -> None:
        assert index == (slice(None),) * values.ndim
        assert values.flags.c_contiguous
        assert values.shape == self._array.shape
        self._array[...] = values
        self.sets += 1


class CudaArrayWithoutSetter:
    """Like JAX's: it can be read on the host, and never written."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__cuda_array_interface__ = CudaArray(array).__cuda_array_interface__

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self._array.copy()


class CudaArrayWithoutCopies:
    """Nobody can read it on the host."""

    def __init__(self, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = CudaArray(array).__cuda_array_interface__
