"""TMA loads and stores of arrays of 1 to 5 axes and of any element, against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import run
from tile.errors import VectorAccessError
from tile.simt.hopper.tma_boxes import block_layout

# A block is loaded from one array and stored to another at the same index.
COPY = """
kernel @k(%in: ptr<ELEMENT>, %out: ptr<ELEMENT>ARGUMENTS) {
  %m = local_alloc {offset = 0} : shared<BLOCKxELEMENT, LAYOUT>
  %b = local_alloc {offset = BYTES} : shared<1xi64, #linear{offset = [] -> dim0 = 1}>
  %zero = const {value = 0} : i32
  %yes = const {value = true} : i1
  mbarrier_init %b
  fence_proxy_async
  barrier
  mbarrier_arrive_expect_tx %b, %zero, %yes {size = BYTES}
  tma_load %m, %b, %zero, %yes, %in, NUMBERS
  mbarrier_wait %b, %zero
  tma_store %m, %out, NUMBERS
  tma_store_wait %m
  return
}
"""
CASES: list[tuple[tuple[int, ...], tuple[int, ...], str]] = [
    ((700,), (512,), "f32"),
    ((20, 24), (16, 16), "i8"),
    ((5, 20, 24), (2, 16, 16), "f16"),
    ((3, 5, 18, 40), (1, 2, 8, 32), "f64"),
    ((3, 2, 5, 6, 40), (2, 1, 4, 4, 32), "i32"),
    ((3, 2, 5, 6, 40), (2, 1, 2, 2, 32), "u16"),  # not swizzled along 64 bytes of 8 rows
]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES |= {"i8": np.int8, "i32": np.int32, "u16": np.uint16}


def copied(
    extents: tuple[int, ...],
    block: tuple[int, ...],
    element: str,
    index: tuple[int, ...],
    shift: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return an array, and one of sevens into which a block of it has been copied."""
    dtype = np.dtype(DTYPES[element])
    pitch = -(-extents[-1] // 16) * 16
    stored = np.arange(math.prod(extents[:-1]) * pitch).astype(dtype).reshape(*extents[:-1], pitch)
    out = np.full_like(stored, 7)
    strides = [step // dtype.itemsize for step in stored.strides[:-1]]
    strides = [step + shift for step in strides]
    types = ["i32"] * len(extents) + ["i64"] * len(strides) + ["i32"] * len(index)
    names = [f"%n{number}" for number in range(len(types))]
    size = math.prod(block) * dtype.itemsize
    text = COPY.replace("ARGUMENTS", "".join(f", {n}: {t}" for n, t in zip(names, types)))
    text = text.replace("ELEMENT", element).replace("NUMBERS", ", ".join(names))
    text = text.replace("BLOCK", "x".join(map(str, block))).replace("BYTES", str(size))
    text = text.replace("LAYOUT", str(block_layout(block, 8 * dtype.itemsize)))
    numbers = [np.int64(n) if t == "i64" else np.int32(n) for n, t in zip(
        (*extents, *strides, *index), types, strict=True)]  # fmt: skip
    run(text, stored.reshape(-1), out.reshape(-1), *numbers, target="wgmma", warps=4)
    return stored[..., : extents[-1]], out[..., : extents[-1]]


@pytest.mark.parametrize(("extents", "block", "element"), CASES)
def test_blocks_of_any_rank(extents: tuple[int, ...], block: tuple[int, ...], element: str) -> None:
    unit = 16 // np.dtype(DTYPES[element]).itemsize  # an index along the last axis is a multiple
    middle = tuple(n // 2 - 1 for n in extents)
    edge = tuple(n - 1 for n in extents)
    before = tuple(-1 if b > 1 else 0 for b in block)
    for first in ((0,) * len(extents), middle, edge, before):
        index = (*first[:-1], first[-1] // unit * unit)
        array, out = copied(extents, block, element, index)
        ranges = [range(max(0, i), min(n, i + b)) for i, n, b in zip(index, extents, block)]
        wanted = np.full_like(array, 7)
        for at in itertools.product(*ranges):
            wanted[at] = array[at]
        np.testing.assert_array_equal(out, wanted)


def test_every_stride_is_a_multiple_of_16_bytes() -> None:
    with pytest.raises(VectorAccessError, match="both must be multiples of 16"):
        copied((5, 20, 24), (2, 16, 16), "f16", (0, 0, 0), shift=1)


def test_an_index_along_the_last_axis_is_a_multiple_of_16_bytes() -> None:
    with pytest.raises(VectorAccessError, match="the index 4 along the last axis"):
        copied((5, 20, 24), (2, 16, 16), "f16", (0, 0, 4))
