"""Blocks of im2col descriptors: pixels of images as rows, zeros where there is no pixel."""

from __future__ import annotations

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Array, Device
from tests.frontend.building import module_of
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import BF16, F16, F32, I32, Pointer, Scalar

IMAGES, HEIGHT, WIDTH, CHANNELS = 2, 5, 4, 16
PADDING, STRIDE = 1, 2


def copy(x, y, N, H, W, C, R: tl.constexpr, S: tl.constexpr, PADDING: tl.constexpr,
         STRIDE: tl.constexpr):  # fmt: skip
    corner = PADDING - 2
    d = tl.make_im2col_descriptor(
        x, [N, H, W, C], [H * W * C, W * C, C, 1], [16, 8], [-PADDING, -PADDING],
        [corner, corner], [1, STRIDE, STRIDE, 1],
    )  # fmt: skip
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 8)[None, :]
    tl.store(y + rows * 8 + columns, d.load([0, 8], [R, S]))


def pixels(x: Array, r: int, s: int) -> Array:
    """Return the rows that a filter's element (r, s) meets, and zeros behind the last one."""
    room = ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0))
    padded = np.pad(x.astype(np.float64), room)
    high, wide = padded.shape[1] - 2, padded.shape[2] - 2
    moved = padded[:, r : r + high : STRIDE, s : s + wide : STRIDE, 8:].reshape(-1, 8)
    rows = np.zeros((16, 8))
    rows[: len(moved)] = moved[:16]
    return rows


@pytest.mark.parametrize("at", [(0, 0), (1, 2), (2, 1)], ids=str)
@pytest.mark.parametrize("ty", [F32, F16, BF16, I32], ids=str)
def test_pixels_are_rows(device: Device, ty: Scalar, at: tuple[int, int]) -> None:
    dtype = numpy_dtype(ty)
    shape = (IMAGES, HEIGHT, WIDTH, CHANNELS)
    x = np.random.default_rng(5).integers(-60, 60, shape).astype(dtype)
    y = np.full((16, 8), 7, dtype)
    types = [Pointer(ty), Pointer(ty), I32, I32, I32, I32]
    module = module_of(copy, *types, R=at[0], S=at[1], PADDING=PADDING, STRIDE=STRIDE)
    device.run(module, (1, 1, 1), [x.ravel(), y.reshape(-1), *map(np.int32, shape)])
    np.testing.assert_array_equal(y.astype(np.float64), pixels(x, *at))
