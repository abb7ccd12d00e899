"""Gradients of attention by the kernels of machines with TMA, on the simulator."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_launches
from tests.sampling import crossed, sample
from tile.ops.core.reference import reference_of
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence import varlen_gradient_launches as varlen_module
from tile.ops.sequence.attention import attention_reference
from tile.ops.sequence.attention_backward import attention_backward_reference


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are launched."""
    return record_launches(monkeypatch)


def heads(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def problem(queries: int, keys: int, size: int, causal: bool) -> list[np.ndarray]:
    """The gradient, q, k, v, the result and the sums; two heads of queries share one of keys."""
    q, k, v = heads(2, 2, queries, size), *(heads(2, 1, keys, size, seed=n) for n in (1, 2))
    result, sums = attention_reference(q, k, v, causal, log_sums=True)
    done = result.astype(np.float16), sums.astype(np.float32)
    return [heads(2, 2, queries, size, seed=3), q, k, v, *done]


@pytest.mark.parametrize(
    ("queries", "keys", "size", "causal"),
    sample(
        [
            *((64, 128, 64), (32, 64, 128), (77, 150, 64), (70, 70, 128)),
            *((64, 64, 96), (70, 90, 80), (32, 64, 192), (45, 70, 256), (33, 33, 40), (70, 70, 24)),
        ],
        [False, True],
    ),
)
def test_results(queries: int, keys: int, size: int, causal: bool, launched: list[str]) -> None:
    """Queries and keys are no multiples of a block, nor are heads."""
    arrays = problem(queries, keys, size, causal)
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=causal)
    assert launched == ["descriptor_q_kernel", "descriptor_kv_kernel"]
    expected = attention_backward_reference(*arrays, causal=causal)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


@pytest.mark.parametrize(
    ("queries", "keys", "size", "causal"),
    sample(
        [(64, 128, 64), (32, 64, 128), (76, 150, 64), (72, 90, 80), (44, 70, 256), (68, 70, 24)],
        [False, True],
    ),
)
def test_sums_in_any_order(
    queries: int, keys: int, size: int, causal: bool, launched: list[str]
) -> None:
    """One kernel adds to dq what each block of keys contributes; blocks end with their head."""
    arrays = problem(queries, keys, size, causal)
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=causal, deterministic=False)
    assert launched == ["delta_kernel", "descriptor_kv_kernel", "scale_kernel"]
    expected = attention_backward_reference(*arrays, causal=causal)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


def test_no_reduction_begins_in_front_of_an_array(launched: list[str]) -> None:
    """Blocks begin at multiples of 16 bytes of the sums, so before a head of 77 queries."""
    with tile.backend("interp:wgmma"):
        tile.ops.attention_backward(*problem(77, 150, 64, False), deterministic=False)
    assert launched == ["descriptor_q_kernel", "descriptor_kv_kernel"]


@pytest.mark.parametrize("scale", [0.0, -0.1])
def test_scales_that_are_not_positive(scale: float) -> None:
    arrays = problem(40, 70, 64, True)
    arrays[4:] = [
        x.astype(t)
        for x, t in zip(
            attention_reference(*arrays[1:4], True, scale, log_sums=True),
            (np.float16, np.float32),
            strict=True,
        )
    ]
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=True, scale=scale)
    expected = attention_backward_reference(*arrays, causal=True, scale=scale)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


@pytest.mark.parametrize(
    ("size", "options"),
    [(64, {"window": 20}), (16, {}), (36, {}), (64, {"bias": heads(1, 1, 40, 70)})],
)
def test_what_is_loaded_by_pointers(
    size: int, options: dict[str, Any], launched: list[str]
) -> None:
    arrays = problem(40, 70, size, False)
    with tile.backend("interp:wgmma"):
        tile.ops.attention_backward(*arrays, **options)
    assert launched == ["delta_kernel", "gradient_kv_kernel", "gradient_q_kernel"]


def test_heads_of_their_own_keys() -> None:
    arrays = problem(128, 128, 64, True)
    arrays = [np.ascontiguousarray(x[:, :1]) for x in arrays]
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=True)
    expected = attention_backward_reference(*arrays, causal=True)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


SEQUENCES: dict[str, tuple[list[int], list[int], bool]] = {
    "all": ([40, 0, 133, 7], [70, 5, 64, 0], False),
    "causal": ([64, 1, 90], [64, 1, 90], True),
    "more queries than keys": ([70, 3], [20, 66], True),
}


@crossed(
    {"name": SEQUENCES, "key_heads": [1, 2], "size, tile_size": [(64, 32), (64, 64), (48, 64)]}
)
def test_sequences(
    name: str,
    key_heads: int,
    size: int,
    tile_size: int,
    launched: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks end in the next sequence, whose numbers do not matter if they are not finite."""
    tiles = {"BLOCK_M": tile_size, "BLOCK_N": tile_size}
    for name_of_table in ("KEY_TILES", "QUERY_TILES"):
        monkeypatch.setattr(varlen_module, name_of_table, Table({(ANY, ANY): tiles}, {}))
    cast(Any, tile.ops.varlen_attention_backward).plans.clear()
    queries, keys, causal = SEQUENCES[name]
    starts = [np.cumsum([0, *n], dtype=np.int32) for n in (queries, keys)]
    q, dout = (heads(sum(queries), 2, size, seed=n) for n in (0, 3))
    k, v = (heads(sum(keys), key_heads, size, seed=n) for n in (1, 2))
    out, sums = reference_of(tile.ops.varlen_attention)(
        q, k, v, *starts, max(queries), causal, log_sums=True
    )
    arrays = dout, q, k, v, out.astype(np.float16), sums.astype(np.float32)
    fixed = *starts, max(queries), max(keys), causal
    expected = reference_of(tile.ops.varlen_attention_backward)(*arrays, *fixed)
    numbers = [np.repeat(np.arange(len(n)), n) % 2 for n in (queries, keys)]
    for parity in (0, 1):
        poisoned = [array.copy() for array in arrays]
        for array, number in zip(poisoned[:5], [numbers[i] for i in (0, 0, 1, 1, 0)], strict=True):
            array[number != parity] = np.nan
        poisoned[5][:, numbers[0] != parity] = np.nan
        with tile.backend("interp:wgmma"):
            gradients = tile.ops.varlen_attention_backward(*poisoned, *fixed)
        for result, wanted, i in zip(gradients, expected, (0, 1, 1), strict=True):
            rows = numbers[i] == parity
            np.testing.assert_allclose(result[rows].astype(np.float64), wanted[rows], atol=8e-3)
    assert launched == ["varlen_q_kernel", "varlen_kv_kernel"] * 2
    cast(Any, tile.ops.varlen_attention_backward).plans.clear()
