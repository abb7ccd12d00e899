"""Softmax of the rows of a matrix, in one kernel that reads and writes each number once.

python examples/softmax.py --rows 1823 --columns 781

NumPy passes over the matrix five times: for the maximum, the difference, exp, the sum and the
quotient. Here a program holds a whole row in one block and computes all five on it.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, positive

import tile
import tile.language as tl


@tile.jit
def softmax_kernel(out_ptr, x_ptr, out_stride, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    # The size of a block is a power of two. Elements past the end of the row are -inf, which does
    # not change the maximum and whose exp adds nothing to the sum.
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf"))
    # Subtract the maximum, so that exp cannot overflow.
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + column, powers / tl.sum(powers, axis=0), mask=inside)


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax of each row of `x` (rows x columns, float32, rows contiguous)."""
    rows, columns = x.shape
    out = np.empty((rows, columns), np.float32)
    strides = (out.strides[0] // out.itemsize, x.strides[0] // x.itemsize)
    softmax_kernel[(rows,)](out, x, *strides, columns, BLOCK=tile.next_power_of_2(columns))
    return out


def reference(x: np.ndarray) -> np.ndarray:
    """Return the softmax in float64."""
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="softmax of the rows of a random matrix")
    parser.add_argument("--rows", type=positive, default=1823)
    parser.add_argument("--columns", type=positive, default=781)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((options.rows, options.columns), dtype=np.float32)
    wide = 40 * rng.standard_normal((options.rows, 2 * options.columns), dtype=np.float32)
    window = wide[:, : options.columns]  # rows whose stride exceeds their length

    report = Report(f"softmax of {options.rows} rows of {options.columns} float32 numbers")
    report.measure("normal numbers", lambda: {"out": softmax(x)}, {"out": reference(x)}, 1e-6)
    report.measure(
        "large ones, half of each row",
        lambda: {"out": softmax(window)},
        {"out": reference(window)},
        1e-6,
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
