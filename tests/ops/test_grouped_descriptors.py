"""Gradients of grouped matmuls with descriptors, as on machines with TMA, on the simulator."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.linear.grouped_matmul_wgrad import grouped_matmul_wgrad_reference


@pytest.mark.parametrize("sizes", [(64, 32), (5, 0, 91), (33, 31, 32), (128,)])
def test_results(sizes: tuple[int, ...]) -> None:
    """Groups end within tiles of rows, and are empty."""
    rows, k, n = sum(sizes), 40, 72
    random = np.random.default_rng(rows)
    # Small integers: sums are exact in any order.
    a, dout = (random.integers(-3, 4, (rows, size)).astype(np.float16) for size in (k, n))
    ends = np.cumsum(sizes, dtype=np.int32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.grouped_matmul_wgrad(a, dout, ends)
    np.testing.assert_array_equal(result, grouped_matmul_wgrad_reference(a, dout, ends))
