"""Matmuls by weights of 4 bits with the configurations of a GPU, on the interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.ops
from tests.sampling import crossed, sample
from tile.ops.core.reference import reference_of
from tile.ops.core.tables import ANY, Table
from tile.ops.linear import int4_expanded, int4_rows
from tile.ops.linear.configurations import PROGRAMS
from tile.ops.linear.int4_expanded import EXPANDED_BYTES
from tile.ops.linear.int4_matmul import EXPANDED_ROWS, REGISTER_ROWS
from tile.ops.linear.int4_tile_sizes import fastest_tiles, runs_at_once

DTYPES = ["float16", "bfloat16"]
TOLERANCES = {"float16": 1e-3, "bfloat16": 6e-3}


def error_of(a: Any, weights: Any, group: int, backend: str, splits: int | None = None) -> float:
    """Return the norm of the error of a matmul by packed weights, relative to that of the result.

    The call has no plan of one with other configurations, and leaves none.
    """
    with tile.backend(backend):
        packed, scales = tile.ops.pack_int4(weights, group)
        tile.ops.int4_matmul.plans.clear()
        result = tile.ops.int4_matmul(a, packed, scales, splits=splits).astype(np.float64)
        tile.ops.int4_matmul.plans.clear()
    expected = reference_of(tile.ops.int4_matmul)(a, packed, scales)
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


@crossed({"group": [32, 128, 256], "rows": [16, 40, 130], "dtype": DTYPES})
def test_configurations_of_a_gpu(
    rows: int, group: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    select = Table.select
    monkeypatch.setattr(Table, "select", lambda table, _, *sizes: select(table, "nvptx", *sizes))
    random = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    weights = random.standard_normal((70, 512)).astype(kind)
    a = random.standard_normal((rows, 512)).astype(kind)
    assert error_of(a, weights, group, "interp", splits=2) < TOLERANCES[dtype]


@crossed(
    {
        "group": [32, 64, 128, 256],
        "rows": [70, 130, 200],
        "backend": ["interp", "interp:wgmma"],
        "dtype": DTYPES,
    }
)
def test_tiles_of_more_rows(
    backend: str, rows: int, group: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes a group, or those weights of one that are in the low or high bits of bytes."""
    monkeypatch.setitem(PROGRAMS, "interp", 4)
    random = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    weights = random.standard_normal((150, 768)).astype(kind) / 64
    a = random.standard_normal((rows, 768)).astype(kind)
    assert error_of(a, weights, group, backend) < TOLERANCES[dtype]


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ((128, 8192, 8192), (128, 2)),
        ((192, 4096, 4096), (192, 4)),
        ((256, 5120, 5120), (256, 3)),
        ((384, 5120, 5120), (128, 1)),
        ((512, 14336, 4096), (256, 1)),
    ],
)
def test_tiles_of_an_h200(sizes: tuple[int, int, int], chosen: tuple[int, int]) -> None:
    config, splits = fastest_tiles(sizes, 132)
    assert (config["BLOCK_M"], splits) == chosen


def test_tiles_that_run_at_once() -> None:
    assert runs_at_once("nvptx", 1024, 4096) and not runs_at_once("nvptx", 1024, 8192)
    assert not runs_at_once("interp", 1024, 128)


@crossed(
    {
        "parts, group": [(1, 64), (3, 64), (3, 32)],
        "backend": ["interp", "interp:wgmma"],
        "dtype": DTYPES,
    }
)
def test_many_rows_expand_weights_first(
    backend: str, parts: int, group: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are expanded while programs multiply by the part before, if bytes have steps of 32."""
    monkeypatch.setitem(EXPANDED_ROWS, "interp", 100)
    monkeypatch.setitem(EXPANDED_BYTES, "interp", 170 * 192 * 2 // parts)
    random = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    weights = random.standard_normal((170, 192)).astype(kind) / 64
    a = random.standard_normal((130, 192)).astype(kind)
    assert error_of(a, weights, group, backend) < TOLERANCES[dtype]


@pytest.mark.parametrize("backend", ["interp", "interp:wgmma"])
def test_columns_of_tiles_are_balanced(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles have any columns; the last part has fewer tiles, or fewer columns."""
    monkeypatch.setitem(EXPANDED_ROWS, "interp", 100)
    monkeypatch.setitem(EXPANDED_BYTES, "interp", 80 * 256 * 2)
    monkeypatch.setitem(PROGRAMS, "interp", 4)
    monkeypatch.setattr(int4_expanded, "TIMES", {64: 1.0, 40: 1.0})
    random = np.random.default_rng(0)
    weights = random.standard_normal((150, 256)).astype(np.float16) / 64
    a = random.standard_normal((130, 256)).astype(np.float16)
    assert error_of(a, weights, 128, backend) < TOLERANCES["float16"]


@pytest.mark.parametrize(
    ("m", "n", "columns"),
    [(768, 8192, 192), (1024, 8192, 256), (2000, 11008, 232), (2048, 14336, 256)],
)
def test_columns_of_an_h200(m: int, n: int, columns: int) -> None:
    across = 132 // tile.cdiv(m, 128)
    assert int4_expanded.balanced_columns(n, across) == columns


@pytest.mark.parametrize(
    ("rows", "limit", "expanded"),
    sample([(3, 2**31), (3, 1), (40, 2**31), (130, 2**31)], [2**14, 2**25]),
)
def test_strides_of_weights(
    rows: int, limit: int, expanded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPANDED_BYTES, "interp", expanded)
    monkeypatch.setattr(int4_rows, "INT32_LIMIT", limit)
    monkeypatch.setitem(REGISTER_ROWS, "interp", 16)
    monkeypatch.setitem(EXPANDED_ROWS, "interp", 100)
    random = np.random.default_rng(0)
    a, weights = (random.standard_normal((n, 256)).astype(np.float16) for n in (rows, 70))
    with tile.backend("interp"):
        packed, scales = tile.ops.pack_int4(weights, 64)
        assert packed.strides == (32, 70 * 32, 1) and scales.strides == (4, 70 * 4)
        packings = packed, np.ascontiguousarray(packed), packed.reshape(70, 128)
        scalings = scales, np.ascontiguousarray(scales), np.repeat(scales, 2, axis=1)[:, ::2]
        tile.ops.int4_matmul.plans.clear()
        results = [tile.ops.int4_matmul(a, *each) for each in zip(packings, scalings, strict=True)]
        tile.ops.int4_matmul.plans.clear()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@crossed(
    {
        "backend, warps": [("interp", 2), ("interp", 8), ("interp:wgmma", 4)],
        "group": [32, 128, 256],
        "rows": [1, 8, 13, 16],
        "dtype": DTYPES,
    }
)
def test_few_rows_with_weights_in_registers(
    backend: str, warps: int, group: int, rows: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTER_ROWS, "interp", 16)
    # With 16 rows of weights a program, and with 32.
    columns = 4096 if group == 128 else 8192
    config = {**int4_rows.TABLE.select(backend, rows, columns), "num_warps": warps}
    monkeypatch.setattr(int4_rows, "TABLE", Table({(ANY, ANY): config}, {}))
    random = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    weights, a = (random.standard_normal((n, 512)).astype(kind) for n in (70, rows))
    with tile.backend(backend):
        packed, scales = tile.ops.pack_int4(weights, group)
        tile.ops.int4_matmul.plans.clear()
        result = tile.ops.int4_matmul(a, packed, scales, splits=2).astype(np.float64)
        tile.ops.int4_matmul.plans.clear()
    expected = reference_of(tile.ops.int4_matmul)(a, packed, scales)
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    assert error < (4e-3 if dtype == "bfloat16" else 5e-4)
