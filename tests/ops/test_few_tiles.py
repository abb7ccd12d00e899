"""Matmuls of few tiles: the configurations of an H100 on its simulator, and their PTX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.ops
from tests.sampling import sample
from tile.ops.core.call import F16
from tile.ops.core.tables import Table
from tile.ops.linear.few_tiles import few_tiles
from tile.ops.linear.shapes import FewTiles, Shape
from tile.ops.linear.transposed_tiles import transposed_tiles


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all backends take the configurations of NVIDIA's GPUs."""
    select = Table.select
    monkeypatch.setattr(Table, "select", lambda table, _, *sizes: select(table, "nvptx", *sizes))
    plans = cast(Any, tile.ops.matmul).plans
    plans.clear()
    yield
    plans.clear()


def operands(m: int, n: int, k: int, dtype: Any = np.float16) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m + n + k)
    # Small integers: sums are exact in any order.
    a, b = (random.integers(-3, 4, shape) for shape in ((m, k), (k, n)))
    return a.astype(dtype), b.astype(dtype)


def chosen(a: np.ndarray, b: np.ndarray, batches: int = 1) -> FewTiles | None:
    one, other = ((0, *(step // x.itemsize for step in x.strides)) for x in (a, b))
    sizes = (batches, a.shape[0], b.shape[1], a.shape[1])
    return few_tiles("nvptx", a.dtype, one, other, sizes)


@pytest.mark.parametrize(
    ("sizes", "layouts", "splits", "bias"),
    sample(
        [((5, 72, 264),), ((16, 200, 512),), ((32, 40, 256),), ((72, 16, 264),), ((40, 64, 256),)],
        [("rows", None, True), ("a", 1, True), ("b", 2, False), ("out", 2, True)],
        each=2,
    ),
)
@pytest.mark.usefixtures("measured")
def test_results(sizes: tuple[int, int, int], layouts: str, splits: int | None, bias: bool) -> None:
    """`layouts` has the array that is stored by columns; rows of 5 are no multiple of 16 bytes."""
    m, n, _ = sizes
    a, b = operands(*sizes)
    added = np.arange(n, dtype=np.float32) if bias else None
    out = np.empty((n, m), np.float16).T if layouts == "out" else np.empty((m, n), np.float16)
    stored = [np.asfortranarray(x) if layouts == name else x for name, x in (("a", a), ("b", b))]
    with tile.backend("interp:wgmma"):
        tile.ops.matmul(*stored, added, "relu", splits=splits, out=out)
    expected = np.maximum(np.float64(a) @ b + (0 if added is None else added), 0)
    np.testing.assert_array_equal(out, expected.astype(np.float16))


@pytest.mark.usefixtures("measured")
def test_batches_of_few_rows() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape) for shape in ((3, 8, 256), (3, 256, 40)))
    a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b)
    np.testing.assert_array_equal(result, (np.float32(a) @ np.float32(b)).astype(a.dtype))


def test_a_program_for_each_multiprocessor() -> None:
    """Whole tiles of large results keep more than half of 132 busy, and at most one program each."""
    for rows, columns in itertools.product((2, 4, 8, 16), (2, 4, 8, 16)):
        few = chosen(*operands(128 * rows, 128 * columns, 512))
        assert few is not None
        tiles = 128 * rows // few.config["BLOCK_M"] * (128 * columns // few.config["BLOCK_N"])
        assert min(64, 8 * rows * columns) <= tiles <= 132


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(*operands(128, 60, 512), id="rows of 120 bytes"),
        pytest.param(*operands(128, 64, 500), id="an inner axis of 1000 bytes"),
        pytest.param(*operands(128, 64, 128), id="less than one iteration"),
        pytest.param(*operands(64, 1, 512), id="one column"),
        pytest.param(*operands(4096, 4096, 448), id="many tiles"),
        pytest.param(*operands(128, 64, 512, np.float32), id="float32"),
    ],
)
def test_others_have_the_tables_of_all(a: np.ndarray, b: np.ndarray) -> None:
    assert chosen(a, b) is None


def test_few_rows_are_columns_of_the_transpose() -> None:
    assert [
        cast(FewTiles, chosen(*operands(m, n, 256))).swapped
        for m, n in ((16, 64), (1, 64), (32, 33 * 8), (40, 64), (16, 16), (64, 16))
    ] == [True, True, True, False, False, False]


def test_64_columns_are_rows_of_the_transpose() -> None:
    """If they are as many tiles of rows of `a` as multiprocessors, or fewer."""
    assert [
        cast(FewTiles, chosen(*operands(m, n, k))).swapped
        for m, n, k in ((1760, 64, 1024), (1760, 48, 1024), (4352, 64, 1024), (1760, 64, 8192))
    ] == [True, False, False, False]


@pytest.mark.parametrize("rows", [1024, 1760, 2048, 2560, 3072, 4096])
def test_programs_of_64_columns_are_at_most_as_many_as_multiprocessors(rows: int) -> None:
    few = cast(FewTiles, chosen(*operands(rows, 64, 1024)))
    assert few.swapped and 64 <= tile.cdiv(rows, few.config["BLOCK_N"]) <= 132


def test_rows_between_lines_have_tiles_of_their_own() -> None:
    """Rows of 48 elements begin within lines of the L2 cache; columns of 2560 do not."""
    a, b = operands(2560, 48, 2560)
    assert cast(FewTiles, chosen(a, b)).config["BLOCK_N"] == 16
    assert cast(FewTiles, chosen(a, np.asfortranarray(b))).config["BLOCK_N"] == 64
    assert cast(FewTiles, chosen(*operands(4096, 48, 4096))).config["BLOCK_N"] == 48


def test_batches_are_many_tiles() -> None:
    a, b = operands(128, 128, 512)
    two, forty = (cast(FewTiles, chosen(a, b, batches)) for batches in (2, 40))
    assert two.config["BLOCK_N"] < forty.config["BLOCK_N"]
    assert cast(FewTiles, chosen(a, b, batches=4000)).config["persistent"]


@pytest.mark.parametrize("k", [64, 128, 192, 256, 384])
def test_several_programs_of_short_matmuls_fit_a_multiprocessor(k: int) -> None:
    """They overlap, however many tiles there are."""
    for rows, columns in ((50176, 128), (12544, 256), (2048, 2048)):
        config = cast(FewTiles, chosen(*operands(rows, columns, k))).config
        tile_bytes = 2 * (config["BLOCK_M"] + config["BLOCK_N"]) * config["BLOCK_K"]
        assert 2 * config["num_stages"] * tile_bytes < 227 << 10


@pytest.mark.parametrize("k", [64, 128, 384])
def test_programs_of_large_results_of_short_matmuls_are_persistent(k: int) -> None:
    for sizes, batches in (((8192, 8192, k), 1), ((512, 512, k), 64)):
        config = cast(FewTiles, chosen(*operands(*sizes), batches)).config
        assert config["persistent"] and config["BLOCK_N"] == 128


@pytest.mark.parametrize(
    ("sizes", "edges", "swapped"),
    [
        ((64, 5120, 5120), (64, 40), False),
        ((64, 6144, 4096), (64, 48), False),
        ((1024, 1280, 1280), (128, 80), False),
        ((1024, 768, 768), (64, 96), False),
        ((1536, 1152, 1152), (128, 128), False),  # 132 tiles of 128 x 112 are hardly faster
    ],
)
def test_columns_of_tiles_fill_the_multiprocessors(
    sizes: tuple[int, int, int], edges: tuple[int, int], swapped: bool
) -> None:
    """The right operand is contiguous along the inner axis, or the transpose is computed."""
    a, b = operands(*sizes)
    few = cast(FewTiles, chosen(a, np.asfortranarray(b)))
    assert (few.config["BLOCK_M"], few.config["BLOCK_N"]) == edges and few.swapped == swapped
    rows = cast(FewTiles, chosen(a, b))
    assert rows.config["BLOCK_N"] % 64 == 0 or rows.swapped


def test_long_inner_axes_are_shared_by_programs() -> None:
    a, b = operands(768, 768, 8192)
    assert cast(FewTiles, chosen(np.asfortranarray(a), b)).config["BLOCK_M"] == 128
    a, b = operands(768, 768, 4096)
    assert cast(FewTiles, chosen(np.asfortranarray(a), b)).config["BLOCK_M"] == 64


@pytest.mark.parametrize(
    ("sizes", "edges"),
    [
        ((1000, 1000, 1000), (64, 128)),
        ((2000, 1000, 3000), (128, 128)),
        ((3000, 3000, 3000), (128, 192)),
        ((5000, 5000, 5000), (128, 224)),
    ],
)
def test_rows_within_sectors_are_loaded_in_clusters(
    sizes: tuple[int, int, int], edges: tuple[int, int]
) -> None:
    config = cast(FewTiles, chosen(*operands(*sizes))).config
    assert (config["BLOCK_M"], config["BLOCK_N"]) == edges
    assert config["num_ctas"] == 2 and config["warp_specialize"]
    m, n, k = (size // 8 * 8 // 16 * 16 for size in sizes)
    assert "num_ctas" not in cast(FewTiles, chosen(*operands(m, n, k))).config


@pytest.mark.parametrize(
    ("n", "k", "splits"),
    [(4096, 8192, 1), (5120, 2560, 1), (5120, 5120, 3), (6144, 8192, 2), (8192, 8192, 1)],
)
def test_inner_axes_are_split_where_pairs_of_multiprocessors_have_unequal_shares(
    n: int, k: int, splits: int
) -> None:
    few = few_tiles("nvptx", F16, (0, k, 1), (0, 1, k), (1, 2, n, k))
    assert few is not None and few.swapped and few.config.get("splits", 1) == splits


@pytest.mark.parametrize(
    ("m", "n", "k", "edges", "stages", "splits"),
    [
        (48, 4096, 4096, (64, 48), 7, 1),
        (96, 2048, 8192, (64, 96), 10, 2),
        (80, 10240, 4096, (64, 80), 4, 1),  # three programs a multiprocessor
        (96, 28672, 8192, (128, 96), 7, 1),
        (104, 4096, 1536, (64, 112), 9, 1),
    ],
)
def test_weights_are_read_once_for_all_rows(
    m: int, n: int, k: int, edges: tuple[int, int], stages: int, splits: int
) -> None:
    """The tiles that were the fastest of those measured, or nearly; out.T is computed."""
    found = transposed_tiles("nvptx", Shape(1, m, n, k, a_inner=True, b_inner=True))
    assert found is not None and found.swapped
    config = found.config
    assert (config["BLOCK_M"], config["BLOCK_N"]) == edges
    assert (config["num_stages"], config["splits"]) == (stages, splits)


@pytest.mark.parametrize("shape", [(32, 4096, 4096), (105, 4096, 4096), (48, 1016, 4096)])
def test_results_that_are_not_transposed(shape: tuple[int, int, int]) -> None:
    one = Shape(1, *shape, a_inner=True, b_inner=True)
    assert transposed_tiles("nvptx", one) is None
    assert transposed_tiles("interp", one._replace(m=48, n=4096)) is None
    assert transposed_tiles("nvptx", one._replace(m=48, n=4096, within_sectors=True)) is None


@pytest.mark.parametrize("backend", ["interp", "opencl"])
def test_tiles_are_of_the_backend_that_they_were_measured_on(backend: str) -> None:
    for m, k in ((1760, 1760), (4096, 1024)):
        assert few_tiles("nvptx", F16, (0, k, 1), (0, 64, 1), (1, m, 64, k)) is not None
        assert few_tiles(backend, F16, (0, k, 1), (0, 64, 1), (1, m, 64, k)) is None
