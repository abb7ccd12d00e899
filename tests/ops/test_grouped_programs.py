"""Grouped matmuls by programs that take several tiles, as on machines with TMA, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.linear import grouped_programs, grouped_wgrad_programs
from tile.ops.linear.grouped_matmul import grouped_matmul_reference
from tile.ops.linear.grouped_matmul_wgrad import grouped_matmul_wgrad_reference
from tile.runtime.jit import JITFunction

SIZES = [(64, 32), (5, 0, 91), (0, 33, 31, 0, 132), (128,), (0, 0)]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the launches."""
    names: list[str] = []

    def launch(kernel: JITFunction[..., Any], grid: tuple[int, ...]) -> Any:
        names.append(kernel.__name__)
        return kernel[grid]

    for module in (grouped_programs, grouped_wgrad_programs):
        monkeypatch.setattr(module, "launch", launch)
    return names


def integers(seed: int, *shape: int) -> np.ndarray:
    """Return small integers, whose dots are exact in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_results(sizes: tuple[int, ...], transposed: bool, programs: list[str]) -> None:
    """Groups end within tiles of rows, and are empty."""
    rows, k, n = sum(sizes), 40, 72
    a, ends = integers(1, rows, k), np.cumsum(sizes, dtype=np.int32)
    b = (
        integers(2, len(sizes), n, k).swapaxes(1, 2)
        if transposed
        else integers(2, len(sizes), k, n)
    )
    with tile.backend("interp:wgmma"):
        result = tile.ops.grouped_matmul(a, b, ends)
    np.testing.assert_array_equal(result, grouped_matmul_reference(a, b, ends).astype(np.float16))
    assert programs == ["grouped_programs_kernel"] * bool(rows)


@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_of_matrices(sizes: tuple[int, ...], programs: list[str]) -> None:
    rows, k, n = sum(sizes), 40, 72
    a, dout, ends = integers(1, rows, k), integers(2, rows, n), np.cumsum(sizes, dtype=np.int32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.grouped_matmul_wgrad(a, dout, ends)
    np.testing.assert_array_equal(result, grouped_matmul_wgrad_reference(a, dout, ends))
    assert programs == ["grouped_wgrad_programs_kernel"] * bool(rows)
