"""A program whose trace is the picture in debugging.md.

Run it as `tile trace docs/traced_program.py -o trace.html`.
"""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl


@tile.jit
def triangle(a_ptr, b_ptr, o_ptr, m, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """O = A B, of whose square A only the lower triangle is not zero."""
    r = tl.program_id(1) * M + tl.arange(0, M)[:, None]
    c = tl.program_id(0) * N + tl.arange(0, N)[None, :]
    i = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, min(m, (tl.program_id(1) + 1) * M), K):
        k = start + i
        a = tl.load(a_ptr + r * m + k[None, :], mask=(k[None, :] <= r) & (r < m), other=0.0)
        b = tl.load(b_ptr + k[:, None] * n + c, mask=(k[:, None] < m) & (c < n), other=0.0)
        total = tl.dot(a, b, total)
    tl.store(o_ptr + r * n + c, total, mask=(r < m) & (c < n))


@tile.jit
def transpose(x_ptr, o_ptr, m, n, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    c = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    inside = (r < m) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=inside)
    tl.store(o_ptr + c * m + r, x, mask=inside)


def main() -> None:
    """Multiply by a triangular matrix, and transpose the result."""
    m, n = 200, 160
    random = np.random.default_rng(0)
    a, b = np.tril(random.random((m, m), np.float32)), random.random((m, n), np.float32)
    out, transposed = np.empty((m, n), np.float32), np.empty((n, m), np.float32)
    triangle[(3, 7)](a, b, out, m, n, M=32, N=64, K=16)
    transpose[(7, 5)](out, transposed, m, n, M=32, N=32)
    assert np.abs(transposed.T - a @ b).max() < 1e-3


if __name__ == "__main__":
    main()
