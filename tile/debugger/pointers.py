"""Addresses as users know them: an argument plus an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.memory import LOWEST, WINDOW_BITS, Buffer, Memory
from tile.backends.interp.values import Array
from tile.ir.numerics import numpy_dtype
from tile.ir.types import Pointer, Scalar


@dataclass(frozen=True, eq=False)
class Pointers:
    """A pointer, or a tile of pointers, in a variable of a program.

    `p + i` and `p - i` move by elements, as in a kernel, and `p[k]` selects from a tile.

    - `index`: the offset of each pointer, in elements, from the start of the array that it points
      into.
    - `inside`: True for each pointer to an element of the array or view that was passed.
    - `load()`: the elements that memory holds now; those out of bounds are masked.
    - `array`: the array itself; for pointers into several arrays, the first of these.
    """

    memory: Memory
    addresses: Array
    pointee: Scalar | Pointer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.addresses.shape

    @property
    def buffers(self) -> list[Buffer | None]:
        """The arrays whose windows contain the addresses, in order; None stands for no window."""
        candidates: list[Buffer | None] = [*self.memory.buffers, None]
        return [buffer for buffer in candidates if self.within(buffer).any()]

    def within(self, buffer: Buffer | None) -> Array:
        """Return True for each address in the window of an array, or, for None, in no window."""
        numbers = (self.addresses - LOWEST) >> WINDOW_BITS
        if buffer is None:
            return np.asarray((numbers < 0) | (numbers >= len(self.memory.buffers)))
        return np.asarray(numbers == (buffer.origin - LOWEST) >> WINDOW_BITS)

    @property
    def index(self) -> Array:
        size = self.pointee.itemsize
        index = np.zeros(self.shape, np.int64)
        for buffer in self.buffers:
            if buffer is not None:
                here = self.within(buffer)
                index[here] = (self.addresses[here] - buffer.origin) // size
        return index

    @property
    def inside(self) -> Array:
        return self.memory.valid(self.addresses, self.pointee.itemsize)

    @property
    def array(self) -> Array | None:
        buffer = self.buffers[0]
        return None if buffer is None else buffer.array.view(np.ndarray)

    def load(self) -> Array:
        inside = self.inside
        dtype = numpy_dtype(self.pointee)
        values = np.zeros(self.shape, dtype)
        for buffer in self.buffers:
            if buffer is not None:
                here = self.within(buffer) & inside
                at = (self.addresses[here] - buffer.start) // dtype.itemsize
                values[here] = buffer.typed(dtype)[at]
        if inside.all():
            return values
        return np.ma.masked_array(values, ~inside)

    def _moved(self, by: Any, sign: int) -> Pointers:
        steps = np.asarray(by)
        if steps.dtype.kind not in "iu":
            raise TypeError(f"a pointer moves by integers, not by {steps.dtype}")
        moved = self.addresses + sign * steps.astype(np.int64) * self.pointee.itemsize
        return Pointers(self.memory, np.asarray(moved), self.pointee)

    def __add__(self, by: Any) -> Pointers:
        return self._moved(by, 1)

    __radd__ = __add__

    def __sub__(self, by: Any) -> Pointers:
        return self._moved(by, -1)

    def __getitem__(self, key: Any) -> Pointers:
        return Pointers(self.memory, np.asarray(self.addresses[key]), self.pointee)

    # NumPy leaves `array + pointers` to `__radd__`.
    __array_ufunc__ = None


@dataclass(frozen=True)
class DescriptorValue:
    """The value of a tensor descriptor: base pointer, shape, strides in elements."""

    base: Pointers
    shape: tuple[int, ...]
    strides: tuple[int, ...]
