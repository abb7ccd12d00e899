"""Im2col descriptors: their meaning in NumPy, and all errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.language.sketch import Sketch
from tests.sampling import is_nightly
from tile.errors import CompilationError, ExecutionError, TileError
from tile.language.base.tensor import Im2colDescriptor
from tile.language.tensor_methods import tensor_attribute


def matrix(
    x: np.ndarray,
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
    offsets: tuple[int, ...],
) -> np.ndarray:
    """Return the pixels of all images, moved by offsets, as rows."""
    spatial = x.shape[1:-1]
    axes = [
        range(low, extent + high, step)
        for low, high, step, extent in zip(lower, upper, steps, spatial, strict=True)
    ]
    rows = [
        x[(image, *at)]
        if all(0 <= i < n for i, n in zip(at, spatial))
        else np.zeros(x.shape[-1], x.dtype)
        for image in range(len(x))
        for pixel in itertools.product(*axes)
        for at in [tuple(i + move for i, move in zip(pixel, offsets, strict=True))]
    ]
    return np.array(rows).reshape(-1, x.shape[-1])


# A kernel is compiled once for all positions and offsets.
START = ["row", "channel"]


@tile.jit(do_not_specialize=[*START, "s"])
def copy1(x, y, N, W, C, row, channel, s, LOWER: tl.constexpr, UPPER: tl.constexpr,
          STEPS: tl.constexpr):  # fmt: skip
    d = tl.make_im2col_descriptor(x, [N, W, C], [W * C, C, 1], [16, 8], LOWER, UPPER, STEPS)
    y_desc = tl.make_tensor_descriptor(y, [16, 8], [8, 1], [16, 8])
    y_desc.store([0, 0], d.load([row, channel], [s]))


@tile.jit(do_not_specialize=[*START, "r", "s"])
def copy2(x, y, N, H, W, C, row, channel, r, s, LOWER: tl.constexpr, UPPER: tl.constexpr,
          STEPS: tl.constexpr):  # fmt: skip
    strides = [H * W * C, W * C, C, 1]
    d = tl.make_im2col_descriptor(x, [N, H, W, C], strides, [16, 8], LOWER, UPPER, STEPS)
    y_desc = tl.make_tensor_descriptor(y, [16, 8], [8, 1], [16, 8])
    y_desc.store([0, 0], tl.load_im2col(d, [row, channel], [r, s]))


@tile.jit(do_not_specialize=[*START, "q", "r", "s"])
def copy3(x, y, N, D, H, W, C, row, channel, q, r, s, LOWER: tl.constexpr, UPPER: tl.constexpr,
          STEPS: tl.constexpr):  # fmt: skip
    strides = [D * H * W * C, H * W * C, W * C, C, 1]
    d = tl.make_im2col_descriptor(x, [N, D, H, W, C], strides, [16, 8], LOWER, UPPER, STEPS)
    y_desc = tl.make_tensor_descriptor(y, [16, 8], [8, 1], [16, 8])
    y_desc.store([0, 0], d.load([row, channel], [q, r, s]))


KERNELS = {1: copy1, 2: copy2, 3: copy3}
CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((5, 7), (0,), (0,), (1,)),
    ((5, 7), (-2,), (0,), (3,)),
    ((3, 4, 5), (0, 0), (0, 0), (1, 1)),
    ((3, 4, 5), (-1, -1), (-1, -1), (1, 1)),  # 3 x 3 with a padding of 1
    ((3, 4, 5), (-1, -2), (-1, 1), (2, 3)),
    ((3, 4, 5), (1, 0), (-1, -3), (1, 2)),
    ((3, 4, 5), (2, 0), (-2, 0), (1, 1)),  # no pixel
    ((2, 3, 2, 3), (-1, 0, -1), (0, -1, 1), (1, 1, 2)),
]


@pytest.mark.parametrize(("shape", "lower", "upper", "steps"), CASES)
@pytest.mark.parametrize("backend", ["interp", "interp:wgmma", "opencl"])
def test_blocks_are_rows_of_the_matrix(
    backend: str,
    shape: tuple[int, ...],
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
) -> None:
    if backend == "opencl":
        pytest.importorskip("pyopencl")
    spatial, channels = len(lower), 16
    x = np.arange(1, 1 + np.prod(shape) * channels, dtype=np.float32).reshape(*shape, channels)
    kernel: Any = KERNELS[spatial]
    moves = [(0,) * spatial, tuple(range(1, 1 + spatial)), (5,) * spatial]
    pairs: Any = itertools.product if is_nightly() else zip
    starts = pairs((0, 3, 40, -5), (8, 12, -4, 0))
    for (row, channel), offsets in itertools.product(starts, moves):
        y = np.full((16, 8), -1, np.float32)
        with tile.backend(backend):
            window = {"LOWER": lower, "UPPER": upper, "STEPS": (1, *steps, 1)}
            kernel[1,](x, y, *x.shape, row, channel, *offsets, **window)
        rows = matrix(x, lower, upper, steps, offsets)
        padded = np.zeros((200 + len(rows), 64), np.float32)
        padded[64 : 64 + len(rows), 32 : 32 + channels] = rows
        np.testing.assert_array_equal(y, padded[64 + row :, 32 + channel :][:16, :8])
        if backend != "interp" and row > 0:
            break


def sketched() -> tuple[Sketch, list[Any]]:
    sketch = Sketch("ptr<f16>", "i32", "i64", "tile<4xi32>")
    return sketch, list(sketch.args)


def made(sketch: Sketch, *args: Any, **kwargs: Any) -> Any:
    return tl.make_im2col_descriptor.emit(sketch.build, *args, **kwargs)


def test_a_descriptor_has_a_type_and_a_block() -> None:
    sketch, (p, n, s, _) = sketched()
    desc = made(sketch, p, [n, n, n], [s, s, 1], (64, 32), [0], [0])
    assert isinstance(desc, Im2colDescriptor) and repr(desc) == "an im2col descriptor of 64x32xf16"
    assert tensor_attribute(sketch.build, desc, "dtype") is tl.float16
    assert tensor_attribute(sketch.build, desc, "block_shape") == (64, 32)
    with pytest.raises(CompilationError, match="has no attribute `lod`; did you mean `load`"):
        tensor_attribute(sketch.build, desc, "lod")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": 1}, "the base of tl.make_im2col_descriptor is a pointer to numbers, not 1"),
        ({"lower": [0, 0]}, "have 2 and 1 numbers; both have one for each of 1 to 3 spatial axes"),
        ({"lower": [], "upper": []}, "have 0 and 0 numbers"),
        ({"shape": [1, 2]}, "the shape of tl.make_im2col_descriptor has 2 numbers; there are 3"),
        ({"strides": 7}, "the strides of tl.make_im2col_descriptor has no list; there are 3"),
        ({"strides": [64, 9, 1]}, "along axis 1 is 9 elements of f16, 18 bytes; it is a multiple"),
        ({"strides": [64, 8, 2]}, "the last stride of tl.make_im2col_descriptor is 1, known when"),
        ({"block": (64,)}, r"the block_shape of .* is \(pixels, channels\), not \[64\]"),
        ({"block": (48, 32)}, "powers of two, and 48 is not"),
        ({"block": (64, 4)}, "8 bytes of f16 along its last axis; the least is 16"),
        ({"steps": [1, 0, 1]}, r"are \[1, 0, 1\]; they are 1, a positive number for each of 1"),
        ({"steps": [1, 1]}, r"the element_strides of tl.make_im2col_descriptor are \[1, 1\]"),
    ],
)
def test_wrong_descriptors(changes: dict[str, Any], message: str) -> None:
    sketch, (p, n, _, _) = sketched()
    right = {"base": p, "shape": [n, n, n], "strides": [64, 8, 1], "block": (64, 32)}
    right |= {"lower": [0], "upper": [0], "steps": None}
    with pytest.raises(TileError, match=message):
        made(sketch, *(right | changes).values())


@pytest.mark.parametrize(
    ("offsets", "moves", "message"),
    [
        ([0], [0, 0], "the offsets of tl.load_im2col has 1 numbers; there are 2"),
        ([0, 0], [0], "the filter_offsets of tl.load_im2col has 1 numbers; there are 2"),
        ([0, 0], [0, 256], "a filter offset of tl.load_im2col is 256; it is 0 to 255 for 2"),
        ([0, 0], [-1, 0], "a filter offset of tl.load_im2col is -1"),
        ([0, 0], [0.5, 0], "a filter offset of tl.load_im2col is an integer"),
    ],
)
def test_wrong_loads(offsets: Any, moves: Any, message: str) -> None:
    sketch, (p, n, s, _) = sketched()
    desc = made(sketch, p, [n] * 4, [s, s, s, 1], (64, 32), [0, 0], [0, 0])
    with pytest.raises(CompilationError, match=message):
        tl.load_im2col.emit(sketch.build, desc, offsets, moves)


def test_a_load_of_something_else() -> None:
    sketch, (p, *_) = sketched()
    with pytest.raises(
        CompilationError, match=r"tl.load_im2col takes an im2col descriptor, not ptr"
    ):
        tl.load_im2col.emit(sketch.build, p, [0, 0], [0])


def test_an_offset_that_tma_cannot_take() -> None:
    x, y = np.zeros((2, 3, 8), np.float32), np.zeros((16, 8), np.float32)
    message = "by a filter offset of 65536 along spatial axis 0; it is 0 to 65535 for 1 such axes"
    with tile.backend("interp"), pytest.raises(ExecutionError, match=message) as fault:
        copy1[1,](x, y, *x.shape, 0, 0, 1 << 16, LOWER=(0,), UPPER=(0,), STEPS=(1, 1, 1))
    assert "d.load([row, channel], [s])" in str(fault.value)
