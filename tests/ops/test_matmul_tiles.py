"""Matmuls on a simulated H100, whose loops copy by TMA."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.reference import reference_of
from tile.ops.linear.balanced_tiles import balanced_tiles
from tile.ops.linear.configurations import tiles
from tile.ops.linear.shapes import FewTiles, Shape
from tile.runtime.jit import JITFunction

matmul_module = importlib.import_module("tile.ops.linear.strided_matmul")


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_parts_of_an_uneven_inner_axis(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks of parts that TMA loads compare with the whole axis, of 5.4 tiles."""
    monkeypatch.setattr(matmul_module, "tiles_of", lambda *_: tiles(64, 32, 64))
    random = np.random.default_rng(splits)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((70, 344), (344, 40)))
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, splits=splits)
    np.testing.assert_allclose(result, np.float32(a) @ np.float32(b), rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize(
    ("columns", "by_columns", "splits"),
    [(208, "", 1), (144, "ab", 1), (96, "a", 2), (224, "out", 1), (112, "b", 2), (168, "b", 1)],
)
def test_columns_that_are_no_power_of_two(
    columns: int, by_columns: str, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last tile ends within one of its blocks; `by_columns` names the arrays stored so."""
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: None)
    monkeypatch.setattr(matmul_module, "tiles_of", lambda *_: tiles(64, columns, 64, 4, 2))
    random = np.random.default_rng(columns)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((72, 136), (136, 360)))
    bias = random.integers(-3, 4, 360).astype(np.float32)
    stored = [np.asfortranarray(x) if name in by_columns else x for name, x in (("a", a), ("b", b))]
    out = (
        np.empty((360, 72), np.float16).T
        if by_columns == "out"
        else np.empty((72, 360), np.float16)
    )
    with tile.backend("interp:wgmma"):
        tile.ops.matmul(*stored, bias, "relu", splits=splits, out=out)
    np.testing.assert_array_equal(out, np.maximum(np.float32(a) @ np.float32(b) + bias, 0))


@pytest.mark.parametrize("columns", [112, 104, 96])
def test_programs_that_compute_several_tiles(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three programs have 2 x 4 tiles, which are stored as two or three blocks."""
    config = {**tiles(64, columns, 64), "persistent": True, "warp_specialize": True}
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: None)
    monkeypatch.setattr(matmul_module, "tiles_of", lambda *_: config)
    monkeypatch.setitem(matmul_module.PROGRAMS, "interp", 3)
    random = np.random.default_rng(columns)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((72, 136), (136, 360)))
    bias = random.integers(-3, 4, 360).astype(np.float32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, bias)
    np.testing.assert_array_equal(result, np.float32(a) @ np.float32(b) + bias)


@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("columns", [112, 104, 96])
def test_programs_of_a_cluster_load_columns_once(
    columns: int, by_columns: bool, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four programs have 2 x 4 tiles; in groups of rows, pairs of them share columns."""
    config = {**tiles(64, columns, 64), "persistent": True, "warp_specialize": True}
    config |= {"num_ctas": 2, "GROUP": group}
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: FewTiles(config, swapped=False))
    monkeypatch.setitem(matmul_module.PROGRAMS, "interp", 4)
    random = np.random.default_rng(columns)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((72, 136), (136, 360)))
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, np.asfortranarray(b) if by_columns else b)
    np.testing.assert_array_equal(result, np.float32(a) @ np.float32(b))


@pytest.mark.parametrize("batches", [1, 3])
def test_programs_that_compute_tiles_of_batches(
    batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**tiles(64, 96, 64), "persistent": True, "warp_specialize": True}
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: FewTiles(config, swapped=False))
    monkeypatch.setitem(matmul_module.PROGRAMS, "interp", 5)
    random = np.random.default_rng(batches)
    a, b = (
        random.integers(-3, 4, (batches, *shape)).astype(np.float16)
        for shape in ((72, 136), (136, 200))
    )
    bias = random.integers(-3, 4, 200).astype(np.float32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, bias)
    np.testing.assert_array_equal(result, np.float32(a) @ np.float32(b) + bias)


@pytest.mark.parametrize(("by_columns", "used"), [(False, 3 * 64 * 128), (True, 144 * 128)])
def test_stages_have_no_columns_that_no_wgmma_reads(
    by_columns: bool, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of `b` consist of strips of 64 columns; columns of it are the rows of its buffer."""
    pytest.importorskip("llvmlite")
    kernels: list[Any] = []

    def launch(kernel: Any, grid: Any) -> Any:
        return lambda *args, **options: kernels.append(kernel.warmup(*args, grid=grid, **options))

    monkeypatch.setattr(JITFunction, "__getitem__", launch)
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: None)
    monkeypatch.setattr(matmul_module, "tiles_of", lambda *_: tiles(128, 144, 64, 8, 5))
    tile.ops.matmul.plans.clear()
    a, b = np.zeros((256, 256), np.float16), np.zeros((256, 288), np.float16)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(a, np.asfortranarray(b) if by_columns else b)
    (kernel,) = kernels
    assert f"stages = 5, used = {used}>" in kernel.asm["thread"]
    assert 0 <= kernel.metadata.shared - 5 * (128 * 128 + used) < 1024


@pytest.mark.parametrize(
    ("sizes", "edges", "persistent", "swapped"),
    [
        pytest.param((1536, 1536, 1536), (128, 144), False, True, id="132 tiles"),
        pytest.param((1600, 1600, 1600), (128, 160), False, True, id="130 tiles"),
        pytest.param((1760, 1760, 1760), (128, 200), False, True, id="126 tiles"),
        pytest.param((2048, 7000, 2048), (128, 176), True, True, id="5 tiles, as of 192"),
        pytest.param((2304, 2304, 2304), (256, 168), False, True, id="126 tall tiles"),
        pytest.param((2432, 2432, 2432), (256, 192), False, False, id="130 of whole strips"),
        pytest.param((2560, 2560, 2560), (256, 200), False, True, id="130 tall tiles"),
        pytest.param((2688, 2688, 2688), (128, 224), True, True, id="2 tiles, too wide for tall"),
        pytest.param((3072, 2048, 2048), (256, 192), False, False, id="132 of whole strips"),
        pytest.param((3072, 2048, 1024), (128, 192), True, False, id="2 tiles, a short inner axis"),
        pytest.param((3072, 3072, 3072), (128, 192), True, False, id="3 tiles, as of 256"),
        pytest.param((4096, 4096, 4096), (128, 256), True, False, id="4 tiles"),
        pytest.param((8192, 8192, 8192), (128, 256), True, False, id="16 tiles"),
        pytest.param((8192, 8192, 512), (128, 256), True, False, id="few iterations"),
    ],
)
def test_edges_keep_multiprocessors_busy(
    sizes: tuple[int, int, int], edges: tuple[int, int], persistent: bool, swapped: bool
) -> None:
    """The right operand is row-major; if it is contiguous inside, the tiles are the same."""
    balanced = balanced_tiles("nvptx", Shape(1, *sizes, True, False))
    assert balanced is not None
    config = balanced.config
    assert (config["BLOCK_M"], config["BLOCK_N"]) == edges
    assert ("persistent" in config, balanced.swapped) == (persistent, swapped)
    inside = balanced_tiles("nvptx", Shape(1, *sizes, True, True))
    assert inside is not None and inside.swapped == swapped
    assert inside.config | {"num_stages": config["num_stages"]} == config
    other = balanced_tiles("nvptx", Shape(1, *sizes, False, True))
    assert other is not None and not other.swapped
    assert balanced_tiles("interp", Shape(1, *sizes, True, True)) is None
    assert balanced_tiles("nvptx", Shape(1, 120, *sizes[1:], True, True)) is None


def test_tall_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four warpgroups share the columns of a tile of 256 rows."""
    config = tiles(256, 104, 64, 16, 2)
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: FewTiles(config, swapped=True))
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((200, 136), (136, 264)))
    bias = random.integers(-3, 4, 264).astype(np.float32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, bias)
    np.testing.assert_array_equal(result, np.float32(a) @ np.float32(b) + bias)


@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 8)])
@pytest.mark.parametrize("columns", [112, 104, 96])
def test_transposed_tiles_of_persistent_programs(
    rows: int, warps: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warpgroups store columns of the result, which are rows of its transpose."""
    config = {**tiles(rows, columns, 64, warps), "persistent": True, "warp_specialize": True}
    monkeypatch.setattr(matmul_module, "few_tiles", lambda *_: FewTiles(config, swapped=True))
    monkeypatch.setitem(matmul_module.PROGRAMS, "interp", 3)
    random = np.random.default_rng(columns)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((200, 136), (136, 360)))
    bias = random.integers(-3, 4, 360).astype(np.float32)
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, bias)
    np.testing.assert_array_equal(result, np.float32(a) @ np.float32(b) + bias)


@pytest.mark.parametrize("largest", [2**20, 70 * 72])
def test_logits_of_ranges_of_classes(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 72 classes begin and end within tiles of the weight."""
    for name in ("linear_cross_entropy", "linear_cross_entropy_backward"):
        module = importlib.import_module(f"tile.ops.linear.{name}")
        monkeypatch.setattr(module, "tiles_of", lambda *_: tiles(64, 32, 64))
    random = np.random.default_rng(largest)
    x, weight = (random.standard_normal((n, 88)).astype(np.float16) / 4 for n in (70, 200))
    target, dloss = random.integers(0, 200, 70), random.standard_normal(70).astype(np.float32)
    with tile.backend("interp:wgmma"):
        loss, sums = tile.ops.linear_cross_entropy(x, weight, target)
        gradients = tile.ops.linear_cross_entropy_backward(
            dloss, x, weight, target, sums, largest=largest
        )
    losses, _ = reference_of(tile.ops.linear_cross_entropy)(x, weight, target)
    np.testing.assert_allclose(loss, losses, rtol=1e-3)
    expected = reference_of(tile.ops.linear_cross_entropy_backward)(dloss, x, weight, target, sums)
    for gradient, one in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, one, atol=5e-3)
