"""Attention whose powers have the maximum of the first block of keys as their origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_option
from tests.ops.test_attention_descriptors import SEQUENCES, check_sequences
from tests.sampling import crossed, sample
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence import attention as attention_module
from tile.ops.sequence import varlen_attention as varlen_module
from tile.ops.sequence.attention import attention_reference

TILES = {"BLOCK_N": 64, "num_stages": 2, "LANE_SUMS": True, "ONE_LOOP": True}


@pytest.fixture(params=[64, 128])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of so many queries, a warpgroup for 64 of them."""
    rows: int = request.param
    tiles = {**TILES, "BLOCK_M": rows, "num_warps": rows // 16, "FIRST_MAXIMUM": True}
    table = Table({(ANY,) * 4: tiles}, {})
    monkeypatch.setattr(attention_module, "BY_FIRST_MAXIMUM", table)
    monkeypatch.setattr(varlen_module, "BY_FIRST_MAXIMUM", table)
    return rows


def growing(start: float, growth: float, dtype: type) -> list[np.ndarray]:
    """Queries, keys and values whose scores begin around `start` and grow by `growth` in a block.

    Those of some queries stay where they are, among them all of some warps.
    """
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 2, 300, 64)) for _ in range(3))
    q[..., 0], q[..., 1] = 8.0, np.where(np.arange(300) % 80 < 30, 8.0, 0.0)
    k[..., 0], k[..., 1] = start, np.arange(300) // 64 * growth
    return [x.astype(dtype) for x in (q, k, v)]


@crossed(
    {
        "start": [-60.0, 0.0, 60.0],
        "growth": [-30.0, 0.0, 3.0, 12.0, 50.0, 200.0],
        "causal": [False, True],
    }
)
def test_scores_that_grow(start: float, growth: float, causal: bool, block: int) -> None:
    q, k, v = growing(start, growth, np.float16)
    with tile.backend("interp:wgmma"):
        result, logs = tile.ops.attention(q, k, v, causal=causal, log_sums=True)
    expected, wanted = attention_reference(q, k, v, causal, log_sums=True)
    np.testing.assert_allclose(result, expected, atol=4e-3)
    np.testing.assert_allclose(logs, wanted, atol=2e-3, rtol=1e-5)


@pytest.mark.parametrize("keys", [20, 64, 300])
def test_other_lengths(keys: int, block: int) -> None:
    """A first block that is not whole, one block, and a last one that is not whole."""
    q, k, v = growing(0.0, 12.0, np.float16)
    with tile.backend("interp:wgmma"):
        result = tile.ops.attention(q[:, :, :130], k[:, :, :keys], v[:, :, :keys])
    expected = attention_reference(q[:, :, :130], k[:, :, :keys], v[:, :, :keys])
    np.testing.assert_allclose(result, expected, atol=4e-3)


@pytest.mark.parametrize(("name", "block"), sample(SEQUENCES, [64, 128]), indirect=["block"])
def test_sequences(name: str, block: int) -> None:
    """Some have no keys, and their queries none to take an origin from."""
    queries, keys, options = SEQUENCES[name]
    check_sequences(queries, keys, 64, 2, options)


def test_undefined_scores(block: int) -> None:
    """They are those of one query and of none other."""
    q, k, v = growing(0.0, 0.0, np.float16)
    q[0, 0, 7, 3], q[0, 1, 140, 3] = np.nan, np.inf
    with tile.backend("interp:wgmma"), np.errstate(invalid="ignore"):
        result = tile.ops.attention(q, k, v)
        expected = attention_reference(q, k, v)
    np.testing.assert_allclose(result, expected, atol=4e-3)


@pytest.mark.parametrize(
    ("options", "used"),
    [({}, True), ({"window": 20}, False), ({"slopes": np.ones(2, np.float32)}, False)],
)
def test_scores_that_take_the_running_maximum(
    options: dict[str, Any], used: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = record_option(monkeypatch, "FIRST_MAXIMUM")
    q, k, v = growing(0.0, 12.0, np.float16)
    with tile.backend("interp:wgmma"):
        result = tile.ops.attention(q, k, v, causal=True, **options)
    assert [bool(each) for each in launched] == [used]
    np.testing.assert_allclose(result, attention_reference(q, k, v, True, **options), atol=4e-3)
