"""A program with four faults, whose report is the picture in debugging.md.

python docs/faulty_program.py report.html
"""

from __future__ import annotations

import sys

import numpy as np

import tile
import tile.language as tl
from tile.diagnostics.sanitize import Report


@tile.jit
def scale_rows(x_ptr, s_ptr, o_ptr, m, n, stride, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    c = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + r * stride + c, mask=r < m)  # the columns are not masked
    s = tl.load(s_ptr + r, mask=r < m)  # no `other`
    tl.store(o_ptr + r * N + c, x * s)


@tile.jit
def halo(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x_ptr + i - 1, mask=i < n)  # nothing lies left of the first
    tl.store(o_ptr + i, left, mask=i < n)


@tile.jit
def histogram(x_ptr, count_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    bins = tl.load(x_ptr + i, mask=i < n, other=0)
    before = tl.load(count_ptr + bins, mask=i < n, other=0)
    tl.store(count_ptr + bins, before + 1, mask=i < n)  # where an atomic addition belongs


def collect_faults() -> Report:
    """Run the kernels and return their faults."""
    rng = np.random.default_rng(0)
    table = np.zeros((22, 24), np.float32)[:, :20]
    with tile.sanitize(collect=True) as report:
        args = (table, np.ones(22, np.float32), np.zeros((24, 32), np.float32), 22, 20, 24)
        scale_rows[(3,)](*args, M=8, N=32)
        halo[(40,)](np.zeros(2500, np.float32), np.zeros(2500, np.float32), 2500, B=64)
        values = rng.integers(0, 48, 1000).astype(np.int32)
        histogram[(16,)](values, np.zeros(48, np.int32), values.size, B=64)
    return report


if __name__ == "__main__":
    collect_faults().html(sys.argv[1])
