"""Losses and gradients of rows that programs hold as several tiles; rows of odd lengths, too."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_launches
from tile.ops.core.reference import Array, reference_of
from tile.ops.core.tables import ANY, Table

OPS = ("cross_entropy", "cross_entropy_backward", "rows_backward")
LENGTHS = [(1000, "float32"), (1001, "float32"), (1203, "float16"), (1208, "float16")]
IGNORED = -100


@pytest.fixture(params=["interp", "interp:wgmma"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with tile.backend(request.param):
        yield request.param


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are launched."""
    return record_launches(monkeypatch)


def choose(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Let programs have tiles of 256 elements."""
    table = Table({(ANY, ANY): {"BLOCK": 256, "num_warps": 2, **options}}, {})
    for name in OPS:
        monkeypatch.setattr(importlib.import_module(f"tile.ops.rowwise.{name}"), "PARTS", table)


def called(op: Any, *arguments: Array) -> Array:
    """Return the result of a call whose configuration is chosen anew."""
    op.plans.clear()
    result: Array = op(*arguments)
    op.plans.clear()
    return result


@pytest.mark.parametrize(("length", "dtype"), LENGTHS)
def test_cross_entropy(
    backend: str, length: int, dtype: str, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch)
    random = np.random.default_rng(0)
    x = random.standard_normal((5, length)).astype(dtype)
    x[2, :900] = -np.inf  # all of some tiles
    target = np.array([0, length - 1, 950, IGNORED, 17])
    dloss = random.standard_normal(5).astype("float32")
    losses = called(tile.ops.cross_entropy, x, target)
    gradient = called(tile.ops.cross_entropy_backward, dloss, x, target, losses)
    assert kernels == ["part_cross_entropy_kernel", "part_cross_entropy_backward_kernel"]
    wide = x.astype(np.float64)
    expected = reference_of(tile.ops.cross_entropy)(wide, target, IGNORED)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    backward = reference_of(tile.ops.cross_entropy_backward)
    expected = backward(dloss, wide, target, IGNORED)
    error = 1e-6 if dtype == "float32" else 1e-3
    np.testing.assert_allclose(gradient.astype(np.float64), expected, rtol=error, atol=error)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("length", "dtype"), LENGTHS)
@pytest.mark.parametrize("log", [False, True])
def test_gradients_of_softmax(
    backend: str,
    size: int,
    length: int,
    dtype: str,
    log: bool,
    kernels: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose(monkeypatch, SIZE=size)
    random = np.random.default_rng(0)
    x, dy = random.standard_normal((2, 4, length))
    op = tile.ops.log_softmax_backward if log else tile.ops.softmax_backward
    powers = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    y, dy = ((np.log(powers) if log else powers).astype(dtype), dy.astype(dtype))
    result = called(op, dy, y)
    assert kernels == ["part_rows_backward_kernel"]
    expected = reference_of(op)(dy.astype(np.float64), y.astype(np.float64))
    error = 1e-5 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=error, atol=error * 0.1)
