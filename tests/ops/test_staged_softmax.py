"""Softmax of rows that a program holds in shared memory, on tiles and on simulated threads."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import tile.ops
from tile.ops.core.call import Call
from tile.ops.core.reference import Array
from tile.ops.rowwise import softmax_kernels, staged_softmax


@pytest.fixture(params=["interp", "interp:mma"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A backend; on simulated threads, rows are short, and several warps have them."""
    name: str = request.param
    if name != "interp":
        tiles = {"BLOCK": 8192, "num_warps": 2}
        monkeypatch.setattr(softmax_kernels, "LONGEST", 4096)
        monkeypatch.setattr(softmax_kernels, "staged_tiles", lambda *_: tiles)
    with tile.backend(name):
        yield name


def expected(x: Array, log: bool) -> Array:
    x = x.astype(np.float64)
    apart = x - x.max(axis=1, keepdims=True)
    total = np.exp(apart).sum(axis=1, keepdims=True)
    result: Array = apart - np.log(total) if log else np.exp(apart) / total
    return result


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("log", [False, True])
def test_rows_of_16_bits(backend: str, dtype: str, log: bool) -> None:
    length = 16392 if backend == "interp" else 4104
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, length)) * 4 - 50).astype(kind)  # all below the masked elements
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
    length = 16392 if backend == "interp" else 4104
    x = np.full((3, length), 60000, np.float16)
    x[1] = -np.inf
    x[2, 7] = np.inf
    with np.errstate(invalid="ignore"):
        result = tile.ops.softmax(x).astype(np.float64)
    assert np.allclose(result[0], 1 / length, rtol=1e-3)
    assert np.isnan(result[1]).all()
    assert np.isnan(result[2, 7])


def test_a_row_may_be_replaced(backend: str) -> None:
    length = 16392 if backend == "interp" else 4104
    x = np.random.default_rng(1).standard_normal((2, length)).astype(np.float16)
    reference = expected(x, False)
    assert np.allclose(tile.ops.softmax(x, out=x), reference, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("length", "strides", "dtype", "is_staged"),
    [
        (32000, (32000, 32000), "float16", True),
        (32001, (32001, 32001), "float16", False),
        (32000, (32004, 32000), "float16", False),
        (16384, (16384, 16384), "float16", False),
        (40000, (40000, 40000), "float16", False),
        (32000, (32000, 32000), "float32", False),
    ],
)
def test_only_rows_of_whole_vectors_are_staged(
    length: int, strides: tuple[int, int], dtype: str, is_staged: bool
) -> None:
    x = Call("softmax").array("x", np.empty((1, length), dtype))
    assert bool(staged_softmax.staged_tiles("nvptx", x, *strides)) is is_staged
