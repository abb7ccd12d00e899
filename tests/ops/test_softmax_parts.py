"""Softmax of rows that a program holds in shared memory, on tiles and on simulated threads."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import tile.ops
from tile.ops.core.reference import Array
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise import softmax_kernels

LENGTH = 4104


@pytest.fixture(params=["interp", "interp:mma"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A backend, on which a program has a row as three tiles."""
    tiles = {"BLOCK": 2048, "STAGED": True, "num_warps": 2, "maxnreg": 64}
    monkeypatch.setattr(softmax_kernels, "PARTS", Table({(ANY, ANY): tiles}, {}))
    with tile.backend(request.param):
        yield request.param


def expected(x: Array, log: bool) -> Array:
    x = x.astype(np.float64)
    apart = x - x.max(axis=1, keepdims=True)
    total = np.exp(apart).sum(axis=1, keepdims=True)
    result: Array = apart - np.log(total) if log else np.exp(apart) / total
    return result


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("log", [False, True])
def test_rows_of_16_bits(backend: str, dtype: str, log: bool) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, LENGTH)) * 4 - 50).astype(kind)  # all below the masked elements
    x[1, 5:] = -np.inf
    op = tile.ops.log_softmax if log else tile.ops.softmax
    result = op(x).astype(np.float64)
    reference = expected(x, log)
    finite = np.isfinite(reference)
    assert (result[~finite] == reference[~finite]).all()
    error = np.abs(result[finite] - reference[finite])
    eps = float(ml_dtypes.finfo(kind).eps)
    assert (error <= eps * np.abs(reference[finite]) + 1e-7).all()


def test_great_elements_and_rows_without_a_softmax(backend: str) -> None:
    x = np.full((3, LENGTH), 60000, np.float16)
    x[1] = -np.inf
    x[2, 7] = np.inf
    with np.errstate(invalid="ignore"):
        result = tile.ops.softmax(x).astype(np.float64)
    assert np.allclose(result[0], 1 / LENGTH, rtol=1e-3)
    assert np.isnan(result[1]).all()
    assert np.isnan(result[2, 7])


def test_a_row_may_be_replaced(backend: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, LENGTH)).astype(np.float16)
    reference = expected(x, False)
    assert np.allclose(tile.ops.softmax(x, out=x), reference, rtol=2e-3, atol=1e-7)
