"""Selections of more elements than those of which `tests/ops/cases.py` has examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile.ops
from tests.ops.launches import record_launches
from tile.ops.core.reference import reference_of
from tile.ops.selection import select
from tile.ops.selection import topk as topk_module

RANDOM = np.random.default_rng(0)
NUMBERS: dict[str, Any] = {
    "distinct": RANDOM.permutation(2 * 9001).astype(np.float32),
    "float16": RANDOM.standard_normal(2 * 9001).astype(np.float16),  # many are equal
    "two numbers": RANDOM.integers(0, 2, 2 * 9001).astype(np.float32),
    "one number": np.ones(2 * 9001, np.float16),
    "special": RANDOM.choice(np.float16([np.nan, -np.inf, np.inf, 0, -0.0]), 2 * 9001),
    "least": np.full(2 * 9001, -(2**31), np.int32),
}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Select of few elements, too, by small blocks; the result has the names of the kernels."""
    monkeypatch.setattr(topk_module, "FEW_ELEMENTS", 0)
    monkeypatch.setattr(topk_module, "SHARE", 1)
    monkeypatch.setattr(topk_module, "SELECTED", {2: (0, 4096), 4: (0, 4096)})
    monkeypatch.setattr(select, "MOST_BLOCK", 4096)
    topk: Any = tile.ops.topk
    topk.plans.clear()
    yield record_launches(monkeypatch)
    topk.plans.clear()


@pytest.mark.parametrize("k", [300, 1025, 4096])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("narrow", [True, False])
def test_many(
    numbers: str, k: int, narrow: bool, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not narrow:
        monkeypatch.setattr(topk_module, "MOST_NARROW", 0)
    x = NUMBERS[numbers].reshape(2, -1)
    values, indices = tile.ops.topk(x, k)
    wanted, places = reference_of(tile.ops.topk)(x, k)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(indices, places)
    assert launched[-1] == "sort_selected_kernel" and launched.count("select_kernel") >= (
        1 if k > 2048 else 2
    )


def test_few_elements_are_sorted() -> None:
    """Their k-th one is not searched."""
    x = NUMBERS["distinct"].reshape(2, -1)
    result = tile.ops.topk(x, 4097)
    for each, wanted in zip(result, reference_of(tile.ops.topk)(x, 4097), strict=True):
        np.testing.assert_array_equal(each, wanted)
