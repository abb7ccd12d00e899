"""Grids: batches, more than the second axis takes (here 3, not 65535), and persistent programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile
import tile.ops
from tests.sampling import sample
from tile.ops.core import batched_grid
from tile.ops.core.reference import reference_of
from tile.runtime.grid import LIMITS


def heads(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.fixture(params=["interp", "interp:wgmma"])
def check(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Return a function that compares an op with its reference."""
    called: list[Any] = []

    def call(op: Any, *args: Any, **options: Any) -> None:
        op.plans.clear()
        called.append(op)
        with tile.backend(request.param):
            results = op(*args, **options)
        expected = reference_of(op)(*args, **options)
        if not isinstance(results, tuple):
            results, expected = (results,), (expected,)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result.astype(np.float64), wanted, atol=2e-2, rtol=2e-2)

    yield call
    for op in called:
        cast(Any, op).plans.clear()


@pytest.fixture
def few(check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return the same of ops whose grids take few batches."""
    monkeypatch.setattr(batched_grid, "LIMITS", (LIMITS[0], 3, LIMITS[2]))
    return check


def test_grids() -> None:
    assert batched_grid.batched_grid(2, LIMITS[1]) == ((2, LIMITS[1]), {})
    assert batched_grid.batched_grid(2, LIMITS[1] + 1) == ((LIMITS[1] + 1, 2), {"BATCH_AXIS": 0})


@pytest.mark.parametrize(
    ("work", "batches", "reread", "together"),
    [
        (300, 12, 1 << 22, 4),
        (300, 12, 1 << 24, 1),
        (300, 12, 1 << 25, 1),
        (300, 12, 0, 12),
        (300, 7, 1 << 22, 1),
        (300, 12, 3 << 20, 4),
        (100, 12, 1 << 25, 3),
        (60, 12, 1 << 25, 6),
        (5, 12, 1 << 25, 12),
        (5, 1009, 1 << 25, 1009),
        (5, 2048, 1 << 25, 64),
    ],
)
def test_batches_whose_programs_alternate(
    work: int, batches: int, reread: int, together: int
) -> None:
    """As many as divide their number, read no more than fits in a cache, or fill the machine."""
    grid = (together, work, batches // together), {"BATCH_AXIS": 2}
    assert batched_grid.batched_grid(work, batches, reread) == grid


def test_other_programs_of_unequal_length() -> None:
    """An axis is too short for all batches, or for their programs."""
    assert batched_grid.batched_grid(2, 1 << 16, 1) == ((1 << 16, 2), {"BATCH_AXIS": 0})
    assert batched_grid.batched_grid(1 << 16, 2, 1) == ((1 << 16, 2), {})


@pytest.mark.parametrize("shape", [(5, 70, 33, 50), (5, 16, 64, 64)])
def test_matmul(few: Callable[..., None], shape: tuple[int, int, int, int]) -> None:
    batches, m, n, k = shape
    few(tile.ops.matmul, heads(batches, m, k) / 8, heads(batches, k, n, seed=1))


def test_longest_blocks_of_some_heads_first(
    check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of two heads of keys alternate, which are six of queries, then those of the others."""
    monkeypatch.setattr(batched_grid, "REREAD", 2 * 150 * 64 * 2 * 2)
    monkeypatch.setattr(batched_grid, "AT_ONCE", 1)
    q, dout = heads(2, 6, 150, 64), heads(2, 6, 150, 64, seed=3)
    k, v = (heads(2, 2, 150, 64, seed=n) for n in (1, 2))
    check(tile.ops.attention, q, k, v, causal=True)
    result, sums = reference_of(tile.ops.attention)(q, k, v, True, log_sums=True)
    done = result.astype(np.float16), sums.astype(np.float32)
    check(tile.ops.attention_backward, dout, q, k, v, *done, causal=True)


@pytest.mark.parametrize(("form", "causal"), sample(["plain", "window", "bias"], [False, True]))
def test_attention(few: Callable[..., None], form: str, causal: bool) -> None:
    q, k, v = heads(3, 2, 150, 64), *(heads(3, 2, 150, 64, seed=n) for n in (1, 2))
    options: dict[str, Any] = {"causal": causal}
    if form == "window":
        options["window"] = 40
    if form == "bias":
        options["bias"] = heads(3, 2, 150, 150, seed=4)
    few(tile.ops.attention, q, k, v, **options)
    result, sums = reference_of(tile.ops.attention)(q, k, v, log_sums=True, **options)
    done = result.astype(np.float16), sums.astype(np.float32)
    few(tile.ops.attention_backward, heads(3, 2, 150, 64, seed=3), q, k, v, *done, **options)


@pytest.mark.parametrize(("window", "causal"), sample([None, 20], [False, True]))
def test_sequences(few: Callable[..., None], window: int | None, causal: bool) -> None:
    lengths = [40, 1, 70, 66]
    starts = np.cumsum([0, *lengths], dtype=np.int32)
    q, k, v, dout = (heads(sum(lengths), 2, 64, seed=n) for n in range(4))
    fixed = starts, starts, max(lengths)
    few(tile.ops.varlen_attention, q, k, v, *fixed, causal, window=window)
    out, sums = reference_of(tile.ops.varlen_attention)(
        *(q, k, v, *fixed, causal), window=window, log_sums=True
    )
    arrays = dout, q, k, v, out.astype(np.float16), sums.astype(np.float32)
    few(tile.ops.varlen_attention_backward, *arrays, *fixed, max(lengths), causal, window=window)


@given(st.integers(1, 10_000), st.integers(1, 300), st.sampled_from([1, 2, 4]))
def test_persistent_programs_are_as_few_as_take_no_more_tiles(tiles, half, cluster):
    most = 4 * half  # a multiple of each cluster
    programs = batched_grid.persistent_programs(tiles, most, cluster)
    rounds = -(-tiles // most)
    assert programs <= most and programs % cluster == 0
    assert -(-tiles // programs) == rounds
    fewer = programs - cluster
    assert fewer == 0 or -(-tiles // fewer) > rounds
