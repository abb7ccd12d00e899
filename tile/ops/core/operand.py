"""An array argument of an op: its properties, and what ops require of its layout and elements."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call_records import ALIGNMENT
from tile.ops.core.new_arrays import DType, Shape, row_major
from tile.ops.core.recorder import recorder

HOST = "host memory"


@dataclass(frozen=True)
class Rows:
    """An array as a matrix whose rows are its last axis; `stride` is in elements."""

    count: int
    length: int
    stride: int


@dataclass(frozen=True)
class Operand:
    """An array argument: `value` as it was passed, and its properties; strides are in elements.

    array: NumPy's array, or the memory of a device; None for an array that the call has allocated.
    """

    op: str
    name: str
    value: Any
    shape: Shape
    strides: tuple[int, ...]
    dtype: DType
    device: str
    array: Any = None

    @property
    def host(self) -> np.ndarray[Any, Any] | None:
        """The array in host memory, or None. What it contains is no part of a call plan's key."""
        if not isinstance(self.array, np.ndarray):
            return None
        if (recording := recorder()) is not None:
            recording.refuse()
        return self.array

    @property
    def address(self) -> int:
        """The address of the first element; a new array has one that is a multiple of any size."""
        if isinstance(self.array, np.ndarray):
            return self.array.ctypes.data
        return 0 if self.array is None else int(self.array.address)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """The bytes from its first element to the end of its last one; negative if not so."""
        if self.size == 0:
            return 0
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        return -1 if min(steps, default=0) < 0 else (sum(steps) + 1) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        steps = zip(self.shape, self.strides, row_major(self.shape), strict=True)
        return self.size == 0 or all(n == 1 or stride == step for n, stride, step in steps)

    @property
    def is_describable(self) -> bool:
        """True if TMA can copy blocks of it: one axis is contiguous, all else is aligned."""
        strides = [*self.strides]
        if 1 not in strides:
            return False
        strides.remove(1)
        distances = [stride * self.dtype.itemsize for stride in strides]
        return not any(number % ALIGNMENT for number in (self.address, *distances))

    def rows(self) -> Rows:
        """Return the array as rows along its last axis, which must be contiguous.

        Raises `ArgumentValueError` if one stride does not lead from each row to the next.
        """
        *leading, length = self.shape
        rows = [(n, s) for n, s in zip(leading, self.strides, strict=False) if n != 1]
        regular = all(outer[1] == inner[0] * inner[1] for outer, inner in itertools.pairwise(rows))
        if self.size and not (regular and (length == 1 or self.strides[-1] == 1)):
            raise self._layout_error(
                "its last axis must be contiguous, and its rows one stride apart"
            )
        return Rows(math.prod(leading), length, rows[-1][1] if rows else length)

    def contiguous(self) -> Operand:
        """Return the operand; raise `ArgumentValueError` unless it is contiguous, row-major."""
        if not self.is_contiguous:
            raise self._layout_error("it must be contiguous")
        return self

    def last_contiguous(self) -> Operand:
        """Return the operand; raise `ArgumentValueError` unless its last axis is contiguous."""
        if self.size and self.shape[-1] != 1 and self.strides[-1] != 1:
            raise self._layout_error("its last axis must be contiguous")
        return self

    def _layout_error(self, requirement: str) -> ArgumentValueError:
        return ArgumentValueError(
            f"{self.op}: `{self.name}` has shape {self.shape} and strides {self.strides} in "
            f"elements; {requirement}: pass a contiguous copy"
        )

    def within(self, low: int, high: int, besides: int | None = None) -> Operand:
        """Return the operand; raise `ArgumentValueError` for elements outside low to high - 1.

        besides: another value that elements may have. Arrays in device memory are not read: kernels
        assert the same (`tl.device_assert`).
        """
        elements = self.host
        if elements is None:
            return self
        wrong = (elements < low) | (elements >= high)
        if besides is not None:
            wrong &= elements != besides
        if wrong.any():
            bounds = f"{low} to {high - 1}" if low < high else "none (the range is empty)"
            raise ArgumentValueError(
                f"{self.op}: `{self.name}` contains {elements[wrong].flat[0]}; its elements must "
                f"be {bounds}" + f" or {besides}" * (besides is not None)
            )
        return self
