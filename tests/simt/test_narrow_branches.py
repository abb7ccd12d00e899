"""Branches that each warp takes alone, on simulated machines with and without shuffles."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl


@tile.jit
def roots(x_ptr, out_ptr, limit, ROWS: tl.constexpr, N: tl.constexpr, BY_ROW: tl.constexpr):
    """Replace elements above a limit by their roots, or those of rows that have one."""
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    high = x > limit
    if BY_ROW:
        high = tl.reduce_or(high, axis=1, keep_dims=True)
    if tl.reduce_or(high, axis=None):
        x = tl.where(high, tl.sqrt(x) / tl.max(x, axis=1)[:, None], x)
    tl.store(out_ptr + at, x)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (2, 16), (8, 64), (64, 8), (4, 512)])
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("target", ["generic", "plain", "wgmma", "warp64"])
def test_results(target: str, warps: int, rows: int, columns: int, by_row: bool) -> None:
    """Warps hold rows, parts of them, or copies."""
    x = np.random.default_rng(rows).random((rows, columns), np.float32)
    for limit in (0.5, 1 - 2 / x.size, 1.0):
        out, high = np.empty_like(x), x > limit
        if by_row:
            high = high.any(axis=1, keepdims=True)
        with tile.backend(f"interp:{target}"):
            roots[(1,)](x, out, limit, rows, columns, by_row, num_warps=warps)
        expected = np.where(high, np.sqrt(x) / x.max(axis=1, keepdims=True), x)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_warps_with_rows_need_no_barrier() -> None:
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "limit": "fp32"}
    for by_row in (False, True):
        constants = {"ROWS": 64, "N": 32, "BY_ROW": by_row}
        text = tile.compile(roots, signature, constants, {"num_warps": 4}, "interp:wgmma").asm[
            "thread"
        ]
        assert "warp_reduce" in text and "barrier" not in text
