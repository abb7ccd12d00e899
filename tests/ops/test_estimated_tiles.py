"""Tiles by an estimate of their time: what is chosen, and how the estimate compares with times."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.linear.configurations import PROGRAMS
from tile.ops.linear.estimated_tiles import estimated_tiles, tile_choices
from tile.ops.linear.shapes import FewTiles, Shape
from tile.ops.linear.tile_times import TileChoice, microseconds


def shape_of(m: int, n: int, k: int, *, by_rows: bool = False) -> Shape:
    return Shape(1, m, n, k, a_inner=True, b_inner=not by_rows)


def chosen(shape: Shape) -> FewTiles:
    return cast(FewTiles, estimated_tiles("nvptx", shape))


@pytest.mark.parametrize(
    ("sizes", "by_rows", "edges", "splits", "swapped"),
    [
        ((192, 3072, 28672), True, (128, 192), 5, True),
        ((192, 9216, 2048), False, (64, 256), 1, False),
        ((384, 3072, 4096), True, (64, 192), 1, True),
        ((768, 6144, 4096), False, (256, 144), 1, False),
        ((160, 22016, 3072), True, (64, 160), 1, True),
        ((256, 9216, 11008), True, (128, 160), 1, False),
        ((512, 9216, 8192), False, (256, 144), 1, False),
    ],
)
def test_tiles(
    sizes: tuple[int, int, int],
    by_rows: bool,
    edges: tuple[int, int],
    splits: int,
    swapped: bool,
) -> None:
    """The fastest ones of those measured, or nearly."""
    few = chosen(shape_of(*sizes, by_rows=by_rows))
    assert (few.config["BLOCK_M"], few.config["BLOCK_N"]) == edges
    assert (few.config["splits"], few.swapped) == (splits, swapped)


@pytest.mark.parametrize(
    ("sizes", "by_rows", "edges"),
    [
        ((512, 4104, 4104), False, (128, 144)),
        ((120, 10008, 5000), False, (64, 176)),
        ((700, 5000, 4104), True, (128, 256)),
    ],
)
def test_rows_within_sectors_have_clusters(
    sizes: tuple[int, int, int], by_rows: bool, edges: tuple[int, int]
) -> None:
    """They take 35.1, 36.8 and 46.6 us so, 45.9, 53.1 and 63.1 if programs load all by themselves.

    Of less rows, others have tiles of transposed_tiles.py.
    """
    shape = shape_of(*sizes, by_rows=by_rows)._replace(within_sectors=True)
    config = chosen(shape).config
    assert config["num_ctas"] == 2 and (config["BLOCK_M"], config["BLOCK_N"]) == edges
    assert estimated_tiles("nvptx", shape._replace(m=80)) is not None
    assert estimated_tiles("nvptx", shape._replace(m=80, within_sectors=False)) is None


@pytest.mark.parametrize(
    ("sizes", "choice", "measured"),
    [
        ((192, 3072, 28672), TileChoice(128, 192, 5, swapped=True, whole=True), 53.9),
        ((576, 2048, 2048), TileChoice(64, 144, 1, swapped=True, whole=True), 8.2),
        ((1000, 1536, 14336), TileChoice(64, 192, 1, swapped=False, whole=True), 59.2),
        ((400, 2560, 14336), TileChoice(64, 144, 1, swapped=True, whole=True), 66.5),
        ((400, 10240, 2560), TileChoice(256, 160, 1, swapped=False, whole=True), 34.7),
        ((320, 1280, 11008), TileChoice(64, 112, 2, swapped=True, whole=True), 17.1),
    ],
)
def test_times(sizes: tuple[int, int, int], choice: TileChoice, measured: float) -> None:
    """The estimates are near those of an H200; 32 rows of the fourth do not exist."""
    assert microseconds(shape_of(*sizes), choice, 132) == pytest.approx(measured, rel=0.3)


def test_rows_that_do_not_exist_take_time() -> None:
    """384 rows of a by tiles of 192 columns take 18.8 us, by tiles of 208 23.0."""
    two = (TileChoice(64, columns, 1, swapped=True, whole=True) for columns in (192, 208))
    shape = shape_of(384, 3072, 4096)
    less, more = (microseconds(shape, choice, 132) for choice in two)
    assert 1.05 < more / less < 1.3


def test_programs() -> None:
    """Splits are one for each multiprocessor at most, and pairs are of the same part of b."""
    random.seed(0)
    for _ in range(100):
        sizes = (random.randint(105, 1023), *(1024 * random.randint(1, 16) for _ in range(2)))
        shape = shape_of(*sizes, by_rows=random.random() < 0.5)
        for choice in tile_choices(shape, 132):
            down, along = choice.across(shape)
            assert choice.splits == 1 or 66 <= down * along * choice.splits <= 132
            assert not choice.clustered or (along if choice.swapped else down) % 2 == 0
        config = chosen(shape).config
        stage = (config["BLOCK_M"] + config["BLOCK_N"]) * config["BLOCK_K"] * 2
        assert 3 <= config["num_stages"] <= 218 * 1024 // stage


@pytest.mark.parametrize(
    "shape",
    [
        shape_of(64, 4096, 4096),
        shape_of(1024, 4096, 4096),
        shape_of(256, 1016, 4096),
        shape_of(256, 4096, 504),
        shape_of(1000, 128256, 4096),
        shape_of(256, 4096, 4096)._replace(batches=2),
    ],
)
def test_other_shapes(shape: Shape) -> None:
    assert estimated_tiles("nvptx", shape) is None
    assert estimated_tiles("interp", shape_of(256, 4096, 4096)) is None


@pytest.mark.parametrize("by_rows", [False, True])
def test_results(by_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200's configuration on its simulator, whose inner axis has a part of an iteration left."""
    monkeypatch.setitem(PROGRAMS, "interp", PROGRAMS["nvptx"])
    plans = cast(Any, tile.ops.matmul).plans
    plans.clear()
    estimated_tiles.cache_clear()
    generator = np.random.default_rng(0)
    a, b = (
        generator.integers(-3, 4, size).astype(np.float16) for size in ((112, 528), (528, 1024))
    )
    with tile.backend("interp:wgmma"):
        result = cast(np.ndarray, tile.ops.matmul(a, b if by_rows else np.asfortranarray(b)))
    plans.clear()
    estimated_tiles.cache_clear()
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(result, expected)
