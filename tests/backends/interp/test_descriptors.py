"""Errors of descriptors and their locations; programs with different descriptors."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import ExecutionError, OutOfBoundsError


@tile.jit
def copy(x, y, rows, columns, stride, shift, N: tl.constexpr):
    d = tl.make_tensor_descriptor(x + shift, [rows, columns], [stride, 1], [4, N])
    e = tl.make_tensor_descriptor(y, [rows, columns], [stride, 1], [4, N])
    e.store([0, 0], d.load([0, 0]))


def test_an_address_that_is_not_aligned() -> None:
    x, y = np.zeros((4, 16), np.float32), np.zeros((4, 16), np.float32)
    with pytest.raises(
        ExecutionError, match=r"whose address is .* must be a multiple of 16"
    ) as fault:
        copy[1,](x, y, 4, 8, 16, 2, N=8)
    assert "make_tensor_descriptor(x + shift" in str(fault.value)
    assert "program (0, 0, 0)" in str(fault.value)


def test_a_stride_that_is_not_aligned() -> None:
    x, y = np.zeros((4, 16), np.float32), np.zeros((4, 16), np.float32)
    with pytest.raises(ExecutionError, match="whose stride along axis 0 is 24 bytes"):
        copy[1,](x, y, 4, 6, 6, 0, N=8)


def test_bounds_beyond_the_array() -> None:
    x, y = np.zeros((4, 16), np.float32), np.zeros((3, 16), np.float32)
    message = "reads `x` at element 48, 1 past its end|writes `y` at element 48, 1 past its end"
    with pytest.raises(OutOfBoundsError, match=message) as fault:
        copy[1,](x, y, 4, 16, 16, 0, N=16)
    assert (
        "it is within the bounds of the descriptor desc<4x16xf32>, which exceed the array"
        in str(fault.value)
    )
    with pytest.raises(OutOfBoundsError, match=message):
        copy[1,](y, x, 4, 16, 16, 0, N=16)


def test_atomics_beyond_the_array() -> None:
    @tile.jit
    def count(x, n):
        d = tl.make_tensor_descriptor(x, [n], [1], [16])
        d.atomic_add([0], 1)

    x = np.zeros(10, np.int32)
    with pytest.raises(OutOfBoundsError, match="updates `x` at element 10, 1 past its end"):
        count[2,](x, 11)
    x[...] = 0
    count[2,](x, 10)
    assert (x == 2).all()


def test_programs_may_differ_in_all_parts_of_a_descriptor() -> None:
    @tile.jit
    def kernel(x, y, sizes, N: tl.constexpr):
        pid = tl.program_id(0)
        rows = tl.load(sizes + pid * 3)
        columns = tl.load(sizes + pid * 3 + 1)
        stride = tl.load(sizes + pid * 3 + 2)
        d = tl.make_tensor_descriptor(x + pid * 16, [rows, columns], [stride, 1], [4, N])
        e = tl.make_tensor_descriptor(y, [64, N], [N, 1], [4, N])
        e.store([pid * 4, 0], d.load([pid - 1, 1 - pid]))

    x = np.arange(256, dtype=np.float32) + 1
    y = np.zeros((16, 16), np.float32)
    sizes = np.array([[3, 9, 16], [7, 16, 24], [2, 5, 8], [1, 40, 64]], np.int32)
    kernel[4,](x, y, sizes, N=16)
    for pid, (rows, columns, stride) in enumerate(sizes):
        for i, j in np.ndindex(4, 16):
            row, column = i + pid - 1, j + 1 - pid
            inside = 0 <= row < rows and 0 <= column < columns
            wanted = x[pid * 16 + row * stride + column] if inside else 0
            assert y[pid * 4 + i, j] == wanted
