"""Layer normalization, forward and backward; the backward pass accumulates under locks.

python examples/layer_norm.py --rows 512 --columns 1000

    y = (x - mean) / sqrt(variance + eps) * weight + bias        mean and variance of each row

The gradients of `weight` and `bias` are sums over all rows. The programs, one per row, cannot all
add to one buffer at once, and a buffer per row would take as much memory as x. The rows therefore
share a few buffers, each guarded by a lock, and a second kernel adds up the buffers.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, positive

import tile
import tile.language as tl

EPS = 1e-5
BUFFERS = 32


@tile.jit
def forward_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    rstd_ptr,
    stride,
    columns,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centered = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + eps)

    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(y_ptr + row * stride + column, centered * rstd * weight + bias, mask=inside)
    # The backward pass needs the mean and the reciprocal standard deviation.
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@tile.jit
def backward_kernel(
    dx_ptr,
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    weight_parts_ptr,
    bias_parts_ptr,
    lock_ptr,
    used_ptr,
    stride,
    columns,
    BUFFERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    rstd = tl.load(rstd_ptr + row)

    # The direct gradient of x, less its contributions through the mean and the variance.
    normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    direct = weight * dy
    by_mean = tl.sum(direct, axis=0) / columns
    by_variance = tl.sum(direct * normal, axis=0) / columns
    dx = (direct - by_mean - normal * by_variance) * rstd
    tl.store(dx_ptr + row * stride + column, dx, mask=inside)

    # A free lock is 0: the program that changes it from 0 to 1 holds it, and others try again.
    buffer = row % BUFFERS
    weight_part = weight_parts_ptr + buffer * columns + column
    bias_part = bias_parts_ptr + buffer * columns + column
    dweight = dy * normal
    dbias = dy
    while tl.atomic_cas(lock_ptr + buffer, 0, 1) == 1:
        pass
    # The first program to hold the lock must not add to the uninitialized buffer.
    if tl.load(used_ptr + buffer) == 0:
        tl.atomic_xchg(used_ptr + buffer, 1)
    else:
        dweight += tl.load(weight_part, mask=inside, other=0.0)
        dbias += tl.load(bias_part, mask=inside, other=0.0)
    tl.store(weight_part, dweight, mask=inside)
    tl.store(bias_part, dbias, mask=inside)
    # All stores of the program must complete before the next program acquires the lock.
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + buffer, 0)


@tile.jit
def add_parts_kernel(
    out_ptr, parts_ptr, buffers, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, buffers, BLOCK_M):
        buffer = start + tl.arange(0, BLOCK_M)
        inside = (buffer[:, None] < buffers) & (column[None, :] < columns)
        part = parts_ptr + buffer[:, None] * columns + column[None, :]
        total += tl.load(part, mask=inside, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0), mask=column < columns)


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """Return `y`, and the `mean` and `rstd` (1 / standard deviation) of each row."""
    rows, columns = x.shape
    y = np.empty_like(x)
    mean, rstd = np.empty(rows, np.float32), np.empty(rows, np.float32)
    block = tile.next_power_of_2(columns)
    forward_kernel[(rows,)](x, y, weight, bias, mean, rstd, columns, columns, EPS, BLOCK=block)
    return {"y": y, "mean": mean, "rstd": rstd}


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, rstd: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the gradients `dx`, `dweight` and `dbias` from that of y."""
    rows, columns = x.shape
    buffers = min(BUFFERS, rows)
    dx = np.empty_like(x)
    weight_parts = np.empty((buffers, columns), np.float32)
    bias_parts = np.empty((buffers, columns), np.float32)
    locks, used = np.zeros(buffers, np.int32), np.zeros(buffers, np.int32)
    backward_kernel[(rows,)](
        *(dx, dy, x, weight, mean, rstd, weight_parts, bias_parts, locks, used),
        *(columns, columns),
        BUFFERS=buffers,
        BLOCK=tile.next_power_of_2(columns),
    )
    dweight, dbias = np.empty(columns, np.float32), np.empty(columns, np.float32)
    for total, parts in ((dweight, weight_parts), (dbias, bias_parts)):
        add_parts_kernel[(tile.cdiv(columns, 128),)](
            total, parts, buffers, columns, BLOCK_M=32, BLOCK_N=128
        )
    return {"dx": dx, "dweight": dweight, "dbias": dbias}


def reference(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> dict[str, np.ndarray]:
    """Return all results, computed in float64."""
    x, dy, weight, bias = (array.astype(np.float64) for array in (x, dy, weight, bias))
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + EPS)
    normal = (x - mean) * rstd
    direct = weight * dy
    through = direct.mean(axis=1, keepdims=True)
    through = through + normal * (direct * normal).mean(axis=1, keepdims=True)
    return {
        "y": normal * weight + bias,
        "mean": mean[:, 0],
        "rstd": rstd[:, 0],
        "dx": (direct - through) * rstd,
        "dweight": (dy * normal).sum(axis=0),
        "dbias": dy.sum(axis=0),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="layer normalization of a random matrix")
    parser.add_argument("--rows", type=positive, default=512)
    parser.add_argument("--columns", type=positive, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    shape = (options.rows, options.columns)
    x = 2 * rng.standard_normal(shape, dtype=np.float32) - 0.5
    dy = rng.standard_normal(shape, dtype=np.float32)
    weight, bias = rng.standard_normal((2, options.columns), dtype=np.float32)
    expected = reference(dy, x, weight, bias)

    report = Report(f"layer normalization of {options.rows} rows of {options.columns} numbers")
    forward_names = ("y", "mean", "rstd")
    done = report.measure(
        "forward",
        lambda: forward(x, weight, bias),
        {name: expected[name] for name in forward_names},
        {"y": 1e-5, "mean": 1e-6, "rstd": 1e-6},
    )
    # Sums over all rows are larger than other results, and so is their rounding error.
    sums = 5e-6 * options.rows**0.5
    report.measure(
        "backward",
        lambda: backward(dy, x, weight, done["mean"], done["rstd"]),
        {name: expected[name] for name in ("dx", "dweight", "dbias")},
        {"dx": 1e-5, "dweight": sums, "dbias": sums},
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
