"""Gradients of norms whose rows TMA copies to shared memory, on simulated threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.call import Call
from tile.ops.core.reference import Array
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise import described_rows, row_norms_backward
from tile.ops.rowwise.layer_norm import layer_norm_backward_reference
from tile.ops.rowwise.rms_norm import rms_norm_backward_reference


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Describe rows of all lengths; record for each call if TMA copies them."""
    seen: list[bool] = []
    describes = Call.describes

    def record(call: Call, *operands: Any) -> bool:
        seen.append(describes(call, *operands))
        return seen[-1]

    monkeypatch.setattr(Call, "describes", record)
    tiles = Table({(ANY, ANY, ANY, ANY): {"STAGES": 3, "programs": 2}}, {})
    monkeypatch.setattr(described_rows, "DESCRIBED", tiles)
    return seen


def gradients(dy: Array, x: Array, weight: Array, centered: bool, given: bool) -> Any:
    statistics: list[Array] = []
    if given:
        apart = x.astype(np.float64)
        if centered:
            mean = apart.mean(axis=-1)
            apart = apart - mean[:, None]
            statistics.append(mean.astype(np.float32))
        rstd = 1 / np.sqrt((apart * apart).mean(axis=-1) + 1e-5)
        statistics.append(rstd.astype(np.float32))
    op = tile.ops.layer_norm_backward if centered else tile.ops.rms_norm_backward
    return op(dy, x, weight, 1e-5, *statistics)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("rows", "length"), [(5, 4096), (9, 512)])
def test_gradients(
    described: list[bool],
    dtype: str,
    given: bool,
    centered: bool,
    rows: int,
    length: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_norms_backward, "FEW", 0)
    random = np.random.default_rng(rows)
    x, dy = random.standard_normal((2, rows, length)).astype(dtype)
    weight = random.standard_normal(length).astype(dtype)
    with tile.backend("interp:wgmma"):
        results = gradients(dy, x, weight, centered, given)
    assert described == [True]
    reference = layer_norm_backward_reference if centered else rms_norm_backward_reference
    wide = [each.astype(np.float64) for each in (dy, x, weight)]
    for result, expected in zip(results, reference(*wide, 1e-5), strict=True):
        scale = float(np.abs(expected).max())
        tolerance = {"float16": 2e-3, "float32": 1e-5}[dtype]
        assert np.abs(result.astype(np.float64) - expected).max() <= tolerance * scale


def test_rows_that_tma_does_not_copy(described: list[bool]) -> None:
    x = np.random.default_rng(0).standard_normal((300, 520)).astype(np.float16)[:, 4:516]
    weight = np.ones(512, np.float16)
    with tile.backend("interp:wgmma"):
        gradients(np.ascontiguousarray(x), x, weight, centered=True, given=False)
    assert described == [False], "rows begin at multiples of 8 bytes"
