"""Attention with keys and values by descriptors, as on machines with TMA, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_launches, record_option
from tests.sampling import crossed, sample
from tile.ops.core.reference import reference_of
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence import attention as attention_module
from tile.ops.sequence import attention_parts as parts_module
from tile.ops.sequence import varlen_attention as varlen_module
from tile.ops.sequence.attention import attention_reference
from tile.runtime.jit import JITFunction


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The constants `DESCRIPTORS` of launches."""
    return record_option(monkeypatch, "DESCRIPTORS")


def heads(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"causal": True},
    "window": {"causal": True, "window": 20},
    "bias": {"bias": heads(2, 1, 33, 70, seed=3).astype(np.float32)},
    "slopes": {"slopes": np.array([0.5, 0.25], np.float32)},
}


@pytest.mark.parametrize(("options", "size"), sample(OPTIONS, [48, 64]))
def test_results(options: str, size: int, forms: list[bool]) -> None:
    """Keys are no multiple of a block, and two heads of queries share one of keys."""
    q, k, v = heads(2, 2, 33, size), heads(2, 1, 70, size, seed=1), heads(2, 1, 70, size, seed=2)
    with tile.backend("interp:wgmma"):
        result = tile.ops.attention(q, k, v, **OPTIONS[options])
    assert forms == [True]
    np.testing.assert_allclose(result, attention_reference(q, k, v, **OPTIONS[options]), atol=4e-3)


def test_strides_that_descriptors_cannot_have(forms: list[bool]) -> None:
    """Rows that do not begin at multiples of 16 bytes are loaded through pointers."""
    q, k, v = (heads(1, 1, 40, 64, seed=n) for n in range(3))
    wide = np.zeros((1, 1, 40, 68), np.float16)
    wide[..., :64] = k
    with tile.backend("interp:wgmma"):
        result = tile.ops.attention(q, wide[..., :64], v)
    assert forms == [False]
    np.testing.assert_allclose(result, attention_reference(q, k, v), atol=4e-3)


def test_addresses_that_descriptors_cannot_have(forms: list[bool]) -> None:
    """A plan of earlier calls is not for them."""
    q, k, v = (heads(1, 1, 40, 64, seed=n) for n in range(3))
    buffer = np.zeros(k.size + 16, np.float16)
    odd = next(n for n in range(8) if buffer[n:].ctypes.data % 16 == 8)
    shifted = buffer[odd : odd + k.size].reshape(k.shape)
    shifted[...] = k
    with tile.backend("interp:wgmma"):
        for keys in (k, shifted, k):
            result = tile.ops.attention(q, keys, v)
            np.testing.assert_allclose(result, attention_reference(q, k, v), atol=4e-3)
    assert forms == [True, False, True]


def test_machines_without_tma(forms: list[bool]) -> None:
    q, k, v = (heads(1, 1, 40, 64, seed=n) for n in range(3))
    for target in ("interp", "interp:mma"):
        with tile.backend(target):
            tile.ops.attention(q, k, v)
    assert forms == [False, False]


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "programs"),
    [(130, 70, False, 3), (128, 192, True, 2), (250, 250, True, 4), (192, 192, True, 0)],
)
def test_programs_that_take_several_blocks(
    queries: int,
    keys: int,
    causal: bool,
    programs: int,
    forms: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Causal ones take pairs of blocks, if the number of blocks is even and all have as many."""
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
    plain = Table({(ANY,) * 5: tiles}, {})
    several = Table({(ANY,) * 5: {**tiles, "warp_specialize": True, "PROGRAMS": programs or 3}}, {})
    monkeypatch.setattr(attention_module, "BY_DESCRIPTORS", plain)
    monkeypatch.setattr(attention_module, "BY_SEVERAL_BLOCKS", several)
    grids: list[tuple[int, ...]] = []
    select = JITFunction.__getitem__

    def recording(kernel: JITFunction[..., Any], grid: Any) -> Any:
        grids.append(grid)
        return select(kernel, grid)

    monkeypatch.setattr(JITFunction, "__getitem__", recording)
    q = heads(2, 2, queries, 64)
    k, v = (heads(2, 1, keys, 64, seed=n) for n in (1, 2))
    with tile.backend("interp:wgmma"):
        results = tile.ops.attention(q, k, v, causal=causal, log_sums=True)
    assert grids == [(programs,) if programs else (4, tile.cdiv(queries, 64), 1)]
    expected = attention_reference(q, k, v, causal, log_sums=True)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=4e-3)


@pytest.mark.parametrize(("options", "log_sums"), sample(OPTIONS, [False, True]))
def test_few_queries_of_many_keys(
    options: str, log_sums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs share the keys; some parts have no key that a query sees."""
    monkeypatch.setattr(parts_module, "MULTIPROCESSORS", {"interp": 16})
    monkeypatch.setattr(parts_module, "LEAST_KEYS", 32)
    launched = record_launches(monkeypatch)
    q, k, v = heads(2, 2, 33, 64), heads(2, 1, 300, 64, seed=1), heads(2, 1, 300, 64, seed=2)
    given = {**OPTIONS[options], "log_sums": log_sums}
    if options == "bias":
        given["bias"] = heads(2, 1, 33, 300, seed=3).astype(np.float32)
    with tile.backend("interp:wgmma"):
        results = tile.ops.attention(q, k, v, **given)
    assert launched == ["attention_kernel", "add_parts_kernel"]
    expected = attention_reference(q, k, v, **given)
    for result, wanted in zip(
        *((x if log_sums else (x,)) for x in (results, expected)), strict=True
    ):
        np.testing.assert_allclose(result, wanted, atol=4e-3)


@pytest.mark.parametrize(
    ("programs", "keys", "block", "parts"),
    [
        (32, 8192, 64, 8),
        (32, 8192, 128, 4),
        (1, 512, 64, 1),
        (1, 1024, 64, 2),
        (1, 1024, 32, 1),
        (200, 8192, 64, 1),
    ],
)
def test_parts(programs: int, keys: int, block: int, parts: int) -> None:
    """No more than run at once, and none of few keys; only where programs run at once."""
    config = {"BLOCK_M": 64, "BLOCK_N": block, "num_stages": 2}
    shape = (8, 64 if block > 32 else 256, keys, 128, 2)
    assert parts_module.parts_of("nvptx", programs, shape, config) == parts
    assert parts_module.parts_of("interp", programs, shape, config) == 1


@pytest.mark.parametrize("options", OPTIONS)
def test_sums_of_lanes(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query has four sums in the loops, which are added after them."""
    tiles = {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "LANE_SUMS": True}
    monkeypatch.setattr(attention_module, "BY_DESCRIPTORS", Table({(ANY,) * 5: tiles}, {}))
    q, k, v = heads(2, 2, 33, 64), heads(2, 1, 70, 64, seed=1), heads(2, 1, 70, 64, seed=2)
    expected = attention_reference(q, k, v, log_sums=True, **OPTIONS[options])
    for target in ("interp", "interp:wgmma"):
        with tile.backend(target):
            results = tile.ops.attention(q, k, v, log_sums=True, **OPTIONS[options])
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, atol=4e-3)


SEQUENCES: dict[str, tuple[list[int], list[int], dict[str, Any]]] = {
    "all": ([40, 0, 33, 7], [70, 5, 64, 0], {}),
    "causal": ([64, 1, 90], [64, 1, 90], {"causal": True}),
    "more queries than keys": ([70, 3], [20, 66], {"causal": True}),
    "window": ([80, 30], [80, 70], {"causal": True, "window": 20}),
    "both sides of a window": ([80, 30], [80, 30], {"window": 9}),
}


def check_sequences(
    queries: list[int], keys: list[int], size: int, heads_of_queries: int, options: dict[str, Any]
) -> None:
    """Values of other sequences do not matter if they are not finite."""
    starts, key_starts = (np.cumsum([0, *n], dtype=np.int32) for n in (queries, keys))
    q = heads(starts[-1], heads_of_queries, size)
    k, v = (heads(key_starts[-1], heads_of_queries // 2, size, seed=n) for n in (1, 2))
    fixed = starts, key_starts, max(queries)
    expected = reference_of(tile.ops.varlen_attention)(q, k, v, *fixed, log_sums=True, **options)
    number, key_number = (np.repeat(np.arange(len(n)), n) for n in (queries, keys))
    for parity in (0, 1):
        rows, others = number % 2 == parity, key_number % 2 != parity
        poisoned = q.copy(), k.copy(), v.copy()
        for array, at, value in zip(poisoned, (~rows, others, others), (np.nan, np.nan, np.inf)):
            array[at] = value
        with tile.backend("interp:wgmma"):
            results = tile.ops.varlen_attention(*poisoned, *fixed, log_sums=True, **options)
        np.testing.assert_allclose(results[0][rows], expected[0][rows], atol=4e-3)
        np.testing.assert_allclose(results[1][:, rows], expected[1][:, rows], atol=4e-3)


@crossed({"name": SEQUENCES, "size": [48, 64], "tile_of_keys": [32, 64]})
def test_sequences(
    name: str, size: int, tile_of_keys: int, forms: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of keys end in the next sequence."""
    config = {"BLOCK_M": 64, "BLOCK_N": tile_of_keys, "LANE_SUMS": size == 64}
    monkeypatch.setattr(varlen_module, "BY_DESCRIPTORS", Table({(ANY,) * 4: config}, {}))
    queries, keys, options = SEQUENCES[name]
    check_sequences(queries, keys, size, 2, options)
    assert forms == [True, True]


@pytest.mark.parametrize(
    ("name", "size", "tile_of_keys"), sample(SEQUENCES, [(48, 64), (64, 32), (64, 64)])
)
def test_programs_with_blocks_of_several_sequences(
    name: str, size: int, tile_of_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiles = {"BLOCK_M": 64, "BLOCK_N": tile_of_keys, "num_warps": 4, "PROGRAMS": 2, "SEQUENCES": 1}
    monkeypatch.setattr(varlen_module, "BY_SEVERAL_BLOCKS", Table({(ANY,) * 3: tiles}, {}))
    launched = []

    def launch(kernel: Any, grid: Any) -> Any:
        launched.append(kernel.__name__)
        return kernel[grid]

    monkeypatch.setattr(varlen_module, "launch", launch)
    queries, keys, options = SEQUENCES[name]
    more = [2 * n + 3 for n in queries], [2 * n + 3 for n in keys]
    check_sequences(*more, size, 4, options)
    assert launched == ["varlen_kernel"] * 2
