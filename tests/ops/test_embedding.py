"""Gradients of tables: sums of rows in a fixed order, each row of the gradient written once."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.selection import embedding_backward, index_order


@pytest.mark.parametrize("count", [1, 31, 33, 97, 500])
@pytest.mark.parametrize("ranked", [0, 1000])
def test_sums_of_runs(count: int, ranked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By both ways to sort, with runs that begin and end at all places of a chunk."""
    monkeypatch.setattr(index_order, "RANKED", ranked)
    random = np.random.default_rng(count)
    indices = np.minimum(random.geometric(0.05, count) - 1, 39)
    dy = random.integers(-9, 10, (count, 3)).astype(np.float32)
    expected = embedding_backward.embedding_backward_reference(dy, indices, 40)
    with tile.backend("interp"), tile.sanitize():
        assert (tile.ops.embedding_backward(dy, indices, 40) == expected).all()
