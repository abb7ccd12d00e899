"""Gradients of norms whose rows are several tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.reference import Array
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise import row_norms_backward, tiled_rows
from tile.ops.rowwise.layer_norm import layer_norm_backward_reference
from tile.ops.rowwise.rms_norm import rms_norm_backward_reference

WARPS = 4


@dataclass
class Tiled:
    """The copies of rows, by TMA or threads, and the tiles of each call."""

    tma: bool
    seen: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(params=["copied", "TMA"])
def tiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tiled:
    """Divide rows into three or five tiles."""
    result = Tiled(request.param == "TMA")
    choose = tiled_rows.tiled_rows
    entries = {
        (ANY, ANY, 1536, ANY): tiled_rows._tiles(3, WARPS, 2, tma=result.tma, sampled=True),
        (ANY, ANY, ANY, ANY): tiled_rows._tiles(5, WARPS, 3, tma=result.tma),
    }

    def record(*arguments: Any, **options: Any) -> dict[str, Any]:
        result.seen.append(choose(*arguments, **options))
        return result.seen[-1]

    monkeypatch.setattr(tiled_rows, "TILED", Table(entries, {}))
    monkeypatch.setattr(tiled_rows, "MASKED", 600)
    monkeypatch.setattr(row_norms_backward, "tiled_rows", record)
    monkeypatch.setattr(row_norms_backward, "FEW", 0)
    return result


def rows_of(length: int, dtype: Any, tiled: Tiled) -> Array:
    """Return x and dy, of shapes for which no call has a plan yet."""
    return np.random.default_rng(length).standard_normal((2, 5 + tiled.tma, length)).astype(dtype)


def check(x: Array, dy: Array, centered: bool, given: bool) -> None:
    weight = np.random.default_rng(3).standard_normal(x.shape[1]).astype(x.dtype)
    wide = [each.astype(np.float64) for each in (dy, x, weight)]
    apart = wide[1] - wide[1].mean(axis=1, keepdims=True) * centered
    statistics = [wide[1].mean(axis=1)] * centered
    statistics += [1 / np.sqrt((apart * apart).mean(axis=1) + 1e-5)]
    more = [each.astype(np.float32) for each in statistics] if given else []
    op = tile.ops.layer_norm_backward if centered else tile.ops.rms_norm_backward
    with tile.backend("interp:wgmma"):
        results = op(dy, x, weight, 1e-5, *more)
    reference = layer_norm_backward_reference if centered else rms_norm_backward_reference
    for result, expected in zip(results, reference(*wide, 1e-5), strict=True):
        scale = float(np.abs(expected).max())
        tolerance = {"float16": 2e-3, "float32": 1e-5}[x.dtype.name]
        assert np.abs(result.astype(np.float64) - expected).max() <= tolerance * scale


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("length", "tiles"), [(384, 3), (2560, 5)])
def test_gradients(
    tiled: Tiled, dtype: str, given: bool, centered: bool, length: int, tiles: int
) -> None:
    x, dy = rows_of(length, dtype, tiled)
    check(x + 1, dy, centered, given)
    assert tiled.seen[0]["BLOCK"] * tiles == length


@pytest.mark.parametrize("length", [1100, 1400, 1535])
@pytest.mark.parametrize("centered", [False, True])
def test_last_tile(tiled: Tiled, centered: bool, length: int) -> None:
    """Elements that a tile lacks add nothing to the variance; TMA copies whole tiles."""
    x, dy = rows_of(length, np.float16, tiled)
    check(x + 3, dy, centered, given=False)
    assert bool(tiled.seen[0]) is not tiled.tma


@pytest.mark.parametrize("length", [590, 1024])
def test_rows_of_one_tile(tiled: Tiled, length: int) -> None:
    """Short rows that would lack elements, and those of which the last tile would have none."""
    x, dy = rows_of(length, np.float16, tiled)
    check(x, dy, centered=True, given=False)
    assert tiled.seen == [{}]
