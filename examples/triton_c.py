"""Triton-C: the listings of the paper that introduced Triton, verbatim, and a corrected one.

python examples/triton_c.py --sizes 300 270 200

The paper (Tillet, Kung, Cox: "Triton: An Intermediate Language and Compiler for Tiled Neural
Network Computations", MAPL 2019) writes kernels in a dialect of C. `tile.triton_c` compiles it:

    triton_c/listing1.tc    listing 1, C = A Bᵀ; its pointers to B are right for N = K only
    triton_c/matmul_nt.tc   listing 1 with that corrected
    triton_c/listing8.tc    listing 8, shift convolution; the host computes its table of offsets

Tunables that a launch leaves out are chosen by the autotuner.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from report import Report, positive, sum_error

import tile
from tile import triton_c

FOLDER = Path(__file__).parent / "triton_c"


def multiply(kernel: triton_c.Kernel, a: np.ndarray, b: np.ndarray, **tunables: int) -> np.ndarray:
    """Return A Bᵀ of A (M x K) and B (N x K); all three are float32 and column-major."""
    (m, k), n = a.shape, b.shape[0]
    c = np.empty((m, n), np.float32, order="F")

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return tile.cdiv(m, meta["TM"]), tile.cdiv(n, meta["TN"])

    kernel[grid](a, b, c, m, n, k, **tunables)
    return c


def product(
    kernel: triton_c.Kernel, a: np.ndarray, b: np.ndarray, **tunables: int
) -> dict[str, np.ndarray]:
    """Return A Bᵀ under its name in the report."""
    return {"C": multiply(kernel, a, b, **tunables)}


def shift_convolution(image: np.ndarray, filters: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return the sums over channels of shifted images, by pixel and filter.

    image: (channels, height, width); filters: (channels, filters), all float32; shifts: two rows of
    non-negative offsets, by channel. The image's pixels are numbered row by row, and those shifted
    beyond a channel's end are the next channel's, as in the listing, which has no border.
    """
    (channels, height, width), count = image.shape, filters.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # its locals hide parameters
        program = triton_c.load(
            FOLDER / "listing8.tc",
            C=channels, H=height, W=width, shift_h=shifts[0], shift_w=shifts[1],
        )  # fmt: skip
    pixels = height * width
    out = np.empty((count, pixels), np.float32)
    padded = np.concatenate([image.ravel(), np.zeros(2 * pixels, np.float32)])

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return tile.cdiv(pixels, meta["TM"]), tile.cdiv(count, meta["TN"])

    program.shift_conv[grid](padded, filters, out, pixels, count, channels, TM=32, TN=32)
    return out


def expected_convolution(image: np.ndarray, filters: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return the same in float64."""
    channels, height, width = image.shape
    pixels = height * width
    padded = np.concatenate([image.ravel(), np.zeros(2 * pixels)])
    starts = np.arange(channels) * pixels + shifts[0] * width + shifts[1]
    shifted = np.stack([padded[start : start + pixels] for start in starts])
    return filters.astype(np.float64).T @ shifted


def main() -> int:
    parser = argparse.ArgumentParser(description="the listings of the Triton paper in Triton-C")
    parser.add_argument(
        "--sizes", type=positive, nargs=3, metavar=("M", "N", "K"), default=[300, 270, 200]
    )
    m, n, k = parser.parse_args().sizes
    rng = np.random.default_rng(0)
    a = np.asfortranarray(rng.standard_normal((m, k), dtype=np.float32))
    b = np.asfortranarray(rng.standard_normal((n, k), dtype=np.float32))
    square = np.asfortranarray(rng.standard_normal((k, k), dtype=np.float32))

    report = Report(f"C = A Bᵀ, A is {m} x {k} and B is {n} x {k} or {k} x {k}, float32 by columns")
    listing = triton_c.load(FOLDER / "listing1.tc").matmul_nt
    corrected = triton_c.load(FOLDER / "matmul_nt.tc").matmul_nt
    for name, kernel, right, tunables in (
        ("listing 1, square B", listing, square, {"TM": 32, "TN": 32, "TK": 16}),
        ("corrected, tuned", corrected, b, {}),
    ):
        expected = a.astype(np.float64) @ right.astype(np.float64).T
        allowed = sum_error(expected, k)
        compute = partial(product, kernel, a, right, **tunables)
        report.measure(name, compute, {"C": expected}, allowed)

    image = rng.standard_normal((64, 16, 16), dtype=np.float32)
    filters = rng.standard_normal((64, 64), dtype=np.float32)
    shifts = rng.integers(0, 2, (2, 64))
    convolved = expected_convolution(image, filters, shifts)
    allowed = sum_error(convolved, len(filters))
    report.measure(
        "listing 8, shift convolution",
        lambda: {"out": shift_convolution(image, filters, shifts)},
        {"out": convolved},
        allowed,
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
