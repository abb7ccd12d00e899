"""Convolution as a matmul whose left operand is never stored: pixels by im2col descriptors.

python examples/convolution.py --batch 2 --size 14 --channels 32 --filters 64 --stride 2

    out[n, p, q, k] = sum over r, s, c of
        image[n, p * stride - padding + r * dilation, q * stride - padding + s * dilation, c]
        * filters[r, s, c, k]

Rows of the matmul are the pixels of all results. `tl.make_im2col_descriptor` describes which pixel
of the images belongs to each; for an element (r, s) of the filters it is moved by that. So the
kernel computes no index of a pixel, and needs no mask for the padding.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, positive, sum_error

import tile
import tile.language as tl


@tile.jit
def convolution_kernel(
    image,
    filters,
    out,
    N,
    H,
    W,
    C,
    K,
    pixels,
    R: tl.constexpr,
    S: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    DILATION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    images = tl.make_im2col_descriptor(
        image,
        shape=[N, H, W, C],
        strides=[H * W * C, W * C, C, 1],
        block_shape=[BM, BK],
        pixel_box_lower_corner=[-PADDING, -PADDING],
        pixel_box_upper_corner=[PADDING - (R - 1) * DILATION, PADDING - (S - 1) * DILATION],
        element_strides=[1, STRIDE, STRIDE, 1],
    )
    weights = tl.make_tensor_descriptor(filters, [R * S * C, K], [K, 1], [BK, BN])
    results = tl.make_tensor_descriptor(out, [pixels, K], [K, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN

    total = tl.zeros((BM, BN), dtype=tl.float32)
    blocks = tl.cdiv(C, BK)
    for step in range(R * S * blocks):
        element, channel = step // blocks, step % blocks * BK
        moved = [element // S * DILATION, element % S * DILATION]
        # Channels beyond the last one are zeros here, whatever the weights are there.
        a = images.load([row, channel], moved)
        b = weights.load([element * C + channel, column])
        total = tl.dot(a, b, total)
    results.store([row, column], total.to(results.dtype))


def extent(size: int, edge: int, stride: int, padding: int, dilation: int) -> int:
    """Return the height or width of the results."""
    return (size + 2 * padding - (edge - 1) * dilation - 1) // stride + 1


def convolution(
    image: np.ndarray, filters: np.ndarray, stride: int, padding: int, dilation: int
) -> np.ndarray:
    """Return the convolution, batch x height x width x filters.

    `image` is batch x height x width x channels, `filters` is R x S x channels x filters, both
    float16; numbers of channels and filters are multiples of 8.
    """
    n, h, w, c = image.shape
    r, s, _, k = filters.shape
    p, q = (extent(*each, stride, padding, dilation) for each in ((h, r), (w, s)))
    out = np.empty((n, p, q, k), np.float16)
    pixels = n * p * q
    convolution_kernel[(tile.cdiv(pixels, 64), tile.cdiv(k, 64))](
        *(image, filters, out, n, h, w, c, k, pixels),
        R=r,
        S=s,
        STRIDE=stride,
        PADDING=padding,
        DILATION=dilation,
        BM=64,
        BN=64,
        BK=32,
    )
    return out


def reference(
    image: np.ndarray, filters: np.ndarray, stride: int, padding: int, dilation: int
) -> np.ndarray:
    """Return the result in float64, a matmul for each element of the filters."""
    n, h, w, _ = image.shape
    r, s, _, k = filters.shape
    p, q = (extent(*each, stride, padding, dilation) for each in ((h, r), (w, s)))
    edges = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = np.pad(image, edges).astype(np.float64)
    result = np.zeros((n, p, q, k))
    for i, j in np.ndindex(r, s):
        pixels = padded[:, i * dilation :: stride, j * dilation :: stride][:, :p, :q]
        result += pixels @ filters[i, j].astype(np.float64)
    return result


def channels(text: str) -> int:
    """Return a number of channels: rows of 16 bytes have multiples of 8."""
    number = positive(text)
    if number % 8:
        raise argparse.ArgumentTypeError(f"{number} is no multiple of 8")
    return number


def padding(text: str) -> int:
    """Return a number of rows and columns of zeros around images: 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no padding; it is a number from 0 on")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="convolution of random images")
    parser.add_argument("--batch", type=positive, default=2)
    parser.add_argument("--size", type=positive, default=14, help="height and width of the images")
    parser.add_argument("--channels", type=channels, default=32)
    parser.add_argument("--filters", type=channels, default=64)
    parser.add_argument("--edge", type=positive, default=3, help="height and width of the filters")
    parser.add_argument("--stride", type=positive, default=1)
    parser.add_argument("--padding", type=padding, default=1)
    parser.add_argument("--dilation", type=positive, default=1)
    options = parser.parse_args()
    padded = options.size + 2 * options.padding
    covered = (options.edge - 1) * options.dilation + 1
    if covered > padded:
        parser.error(f"filters cover {covered} pixels, more than the {padded} of padded images")
    rng = np.random.default_rng(0)
    shape = (options.batch, options.size, options.size, options.channels)
    image = rng.standard_normal(shape, dtype=np.float32).astype(np.float16)
    size = (options.edge, options.edge, options.channels, options.filters)
    filters = rng.standard_normal(size, dtype=np.float32).astype(np.float16)
    window = options.stride, options.padding, options.dilation
    expected = reference(image, filters, *window)

    report = Report(
        f"convolution of {shape[0]} images of {shape[1]} x {shape[2]} x {shape[3]}, "
        f"{options.filters} filters of {options.edge} x {options.edge}"
    )
    # The sums are of float32, and rounded to float16 at the end.
    allowed = sum_error(expected, options.edge**2 * options.channels)
    allowed += float(np.abs(expected).max()) * float(np.finfo(np.float16).eps)
    report.measure(
        "convolution", lambda: {"out": convolution(image, filters, *window)}, {"out": expected},
        allowed,
    )  # fmt: skip
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
