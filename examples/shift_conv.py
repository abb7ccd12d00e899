"""Shift convolution in one kernel: shift each channel by its own offset, then a matmul over them.

python examples/shift_conv.py --batch 4 --channels 512 --filters 512 --size 7

    out[n, f, h, w] = sum over c of filters[f, c] * image[n, c, h + shift_h[c], w + shift_w[c]]

This is the last listing of the paper that introduced Triton (MAPL 2019), in Python. It is a matmul
whose left operand is gathered: the offsets of the next channels of a pixel are loaded from a table,
`delta`, instead of being computed by an addition. Images have a border of zeros, so that no shift
leaves them.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, positive, sum_error

import tile
import tile.language as tl

BORDER = 1


@tile.jit
def shift_conv_kernel(
    image,
    filters,
    out,
    delta,
    M,
    N,
    K,
    HEIGHT,
    WIDTH,
    image_stride,
    row_stride,
    TM: tl.constexpr,
    TN: tl.constexpr,
    TK: tl.constexpr,
):
    # Rows are pixels of all images, columns are filters, the inner axis is the channels.
    rx = tl.program_id(0) * TM + tl.arange(0, TM)
    ry = tl.program_id(1) * TN + tl.arange(0, TN)
    rk = tl.arange(0, TK)
    pixel = rx % (HEIGHT * WIDTH)
    place = rx // (HEIGHT * WIDTH) * image_stride + pixel // WIDTH * row_stride + pixel % WIDTH

    C = tl.zeros((TM, TN), dtype=tl.float32)
    px = image + place[:, None]
    pb = filters + ry[:, None] + rk * N
    pd = delta + rk
    for k in range(K, 0, -TK):
        check_k = rk < k
        step = tl.load(pd, mask=check_k, other=0)
        a = tl.load(px + step[None, :], mask=(rx < M)[:, None] & check_k, other=0.0)
        b = tl.load(pb, mask=(ry < N)[:, None] & check_k, other=0.0)
        C = tl.dot(a, tl.trans(b), C, input_precision="ieee")
        pb = pb + TK * N
        pd = pd + TK

    check_c = (rx < M)[:, None] & (ry < N)
    tl.store(out + rx[:, None] + ry * M, C, mask=check_c)


def shift_conv(
    image: np.ndarray, filters: np.ndarray, shift_h: np.ndarray, shift_w: np.ndarray
) -> np.ndarray:
    """Return the shift convolution, filters x batch x height x width.

    `image` is batch x channels x height x width, `filters` is filters x channels, both float32;
    `shift_h` and `shift_w` say for each channel how far to move: -1, 0 or 1.
    """
    batch, channels, height, width = image.shape
    count = filters.shape[0]
    bordered = np.pad(image, ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER)))
    image_stride, channel_stride, row_stride, _ = (
        step // bordered.itemsize for step in bordered.strides
    )
    # The offset of a pixel and its channel in the image with its border.
    delta = np.arange(channels) * channel_stride
    delta += (BORDER + shift_h) * row_stride + BORDER + shift_w
    out = np.empty((count, batch, height, width), np.float32)
    pixels = batch * height * width
    shift_conv_kernel[(tile.cdiv(pixels, 64), tile.cdiv(count, 64))](
        *(bordered, np.asfortranarray(filters), out, delta.astype(np.int32)),
        *(pixels, count, channels, height, width, image_stride, row_stride),
        TM=64,
        TN=64,
        TK=16,
    )
    return out


def reference(
    image: np.ndarray, filters: np.ndarray, shift_h: np.ndarray, shift_w: np.ndarray
) -> np.ndarray:
    """Return the result in float64: shift whole channels, then a matmul over the channels."""
    height, width = image.shape[2:]
    moved = np.zeros(image.shape, np.float64)
    for channel, (down, right) in enumerate(zip(shift_h, shift_w, strict=True)):
        for h in range(max(0, -down), min(height, height - down)):
            for w in range(max(0, -right), min(width, width - right)):
                moved[:, channel, h, w] = image[:, channel, h + down, w + right]
    return np.einsum("fc,nchw->fnhw", filters.astype(np.float64), moved, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="shift convolution of random images")
    parser.add_argument("--batch", type=positive, default=4)
    parser.add_argument("--channels", type=positive, default=512)
    parser.add_argument("--filters", type=positive, default=512)
    parser.add_argument("--size", type=positive, default=7, help="height and width of the images")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    shape = (options.batch, options.channels, options.size, options.size)
    image = rng.standard_normal(shape, dtype=np.float32)
    filters = rng.standard_normal((options.filters, options.channels), dtype=np.float32)
    shift_h, shift_w = rng.integers(-1, 2, (2, options.channels))
    inputs = (image, filters, shift_h, shift_w)
    expected = reference(*inputs)

    report = Report(
        f"shift convolution of {shape[0]} images, {shape[1]} channels of {shape[2]} x {shape[3]}, "
        f"{options.filters} filters"
    )
    allowed = sum_error(expected, options.channels)
    report.measure("shift_conv", lambda: {"out": shift_conv(*inputs)}, {"out": expected}, allowed)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
