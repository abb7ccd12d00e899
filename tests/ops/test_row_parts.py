"""Rows of several tiles, and rows that clusters share, on tiles and on simulated threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tile.ops
from tile.ops.core.call import Call
from tile.ops.core.reference import Array
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise import described_rows, row_norms, softmax_kernels
from tile.ops.rowwise.layer_norm import layer_norm_backward_reference, layer_norm_reference
from tile.ops.rowwise.rms_norm import rms_norm_backward_reference, rms_norm_reference
from tile.ops.rowwise.row_parts import row_parts

Choose = Callable[..., None]
# Of threads with less registers than elements, which are kept in shared memory.
STAGED = {"BLOCK": 512, "STAGED": True, "maxnreg": 8}


@pytest.fixture(params=["interp", "interp:wgmma"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    with tile.backend(name):
        yield name


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Give all rows to clusters of so many programs, with options."""

    def tables(size: int, **options: Any) -> None:
        tiles = {"SIZE": size, "BLOCK": 256, "num_warps": 2, **options}
        of_norms = {name: tiles.pop(name, 0) for name in ("SAMPLE", "PACKED", "LINE")}
        monkeypatch.setattr(softmax_kernels, "PARTS", Table({(ANY,) * 2: dict(tiles)}, {}))
        tiles.pop("STAGED", None)
        monkeypatch.setattr(row_norms, "PARTS", Table({(ANY,) * 3: tiles | of_norms}, {}))

    return tables


def rows(length: int, dtype: str, *, seed: int = 0) -> Array:
    x = np.random.default_rng(seed).standard_normal((4, length)) * 3 + 50
    return x.astype(dtype)


def softmax_of(x: Array, log: bool) -> Array:
    apart = x.astype(np.float64)
    apart -= apart.max(axis=1, keepdims=True)
    total = np.exp(apart).sum(axis=1, keepdims=True)
    result: Array = apart - np.log(total) if log else np.exp(apart) / total
    return result


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("length", "dtype", "staged"),
    [
        (1000, "float32", False),
        (1024, "float32", False),
        (1200, "float16", False),
        (1200, "float16", True),
        (1001, "float32", False),  # rows that begin anywhere in a line
        (1203, "float16", True),
    ],
)
@pytest.mark.parametrize("log", [False, True])
def test_softmax(
    backend: str, choose: Choose, size: int, length: int, dtype: str, staged: bool, log: bool
) -> None:
    choose(size, **(STAGED if staged else {}))
    x = rows(length, dtype)
    x[1, : length // 2] = -np.inf  # all of a part, or of two
    result = (tile.ops.log_softmax if log else tile.ops.softmax)(x)
    reference = softmax_of(x, log)
    np.testing.assert_allclose(
        result.astype(np.float64), reference, rtol=1e-5 if dtype == "float32" else 2e-3, atol=1e-6
    )


@pytest.mark.parametrize("size", [1, 2])
def test_rows_without_a_softmax(backend: str, choose: Choose, size: int) -> None:
    choose(size)
    x = rows(1000, "float32")
    x[1], x[2, 7] = -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        result = tile.ops.softmax(x)
    assert np.isnan(result[1:3]).all() and not np.isnan(result[[0, 3]]).any()


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("length", "dtype", "options"),
    [
        (1000, "float32", {}),
        (1200, "float16", {}),
        (1200, "float16", STAGED),
        (1200, "float16", {"SAMPLE": 32, **STAGED}),
        (1200, "float16", {"SAMPLE": 32, "PACKED": True}),
        (904, "float16", {"SAMPLE": 32, "PACKED": True, "LINE": 128}),  # rows begin within a line
        (904, "float16", {"SAMPLE": 32, "LINE": 32, **STAGED}),
    ],
)
def test_norms(
    backend: str, choose: Choose, size: int, length: int, dtype: str, options: dict[str, Any]
) -> None:
    choose(size, **options)
    x, weight, bias = rows(length, dtype), rows(length, dtype, seed=1)[0], rows(length, dtype)[0]
    x[2, : length // 2] += 20  # parts have different means
    x[3, :32] += 100  # and samples of parts
    wide = [value.astype(np.float64) for value in (x, weight, bias)]
    tolerance = {"rtol": 2e-5 if dtype == "float32" else 2e-3, "atol": 1e-3}
    results = tile.ops.layer_norm(x, weight, bias, statistics=True)
    references = layer_norm_reference(*wide, 1e-5, True)
    for result, reference in zip(results, references, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), reference, **tolerance)
    result = tile.ops.rms_norm(x, weight)
    np.testing.assert_allclose(
        result.astype(np.float64), rms_norm_reference(*wide[:2], 1e-5, False), **tolerance
    )


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    ("length", "dtype"),
    [(1024, "float32"), (8192, "float16"), (1200, "float32"), (9600, "float16")],
)
def test_gradients_of_norms(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    given: bool,
    centered: bool,
    length: int,
    dtype: str,
) -> None:
    config = {"STAGES": 2, "programs": 2 * size, "SIZE": size}
    table = Table({(ANY, ANY, ANY, ANY): config}, {})
    monkeypatch.setattr(described_rows, "DESCRIBED", table)
    monkeypatch.setattr(described_rows, "SHARED", table)
    x, dy, weight = rows(length, dtype), rows(length, dtype, seed=1) - 50, rows(length, dtype)[0]
    wide = [value.astype(np.float64) for value in (dy, x, weight)]
    apart = wide[1] - (wide[1].mean(axis=1, keepdims=True) if centered else 0)
    rstd = (1 / np.sqrt((apart * apart).mean(axis=1) + 1e-5)).astype(np.float32)
    statistics = [wide[1].mean(axis=1).astype(np.float32), rstd] if centered else [rstd]
    op = tile.ops.layer_norm_backward if centered else tile.ops.rms_norm_backward
    reference = layer_norm_backward_reference if centered else rms_norm_backward_reference
    with tile.backend("interp:wgmma"):
        results = op(dy, x, weight, 1e-5, *(statistics if given else ()))
    for result, expected in zip(results, reference(*wide, 1e-5), strict=True):
        error = np.abs(result.astype(np.float64) - expected).max()
        assert error <= (2e-5 if dtype == "float32" else 2e-3) * np.abs(expected).max()


@pytest.mark.parametrize(
    ("length", "itemsize", "size", "block", "parts"),
    [
        (20000, 2, 1, 4096, (20000, 5)),
        (32000, 4, 2, 8192, (16000, 2)),
        (32768, 4, 2, 8192, (16384, 2)),
        (20004, 4, 2, 2048, (10016, 5)),  # parts are whole lines
        (4104, 4, 2, 1024, (2052, 3)),  # or vectors: of whole lines, the last part has two tiles
        (20002, 4, 2, 2048, None),  # rows that begin in the midst of a vector
        (20, 4, 4, 8, None),  # three parts, and a program would have none
        (520, 4, 8, 64, None),  # the last part has no element of the second tile
    ],
)
def test_parts(
    length: int, itemsize: int, size: int, block: int, parts: tuple[int, int] | None
) -> None:
    dtype = {2: np.float16, 4: np.float32}[itemsize]
    call = Call("softmax")
    x = call.array("x", np.zeros((2, length), dtype))
    result = row_parts(call, x, {"SIZE": size, "BLOCK": block}, length)
    assert (tuple(result[name] for name in ("PART", "COUNT")) if result else None) == parts


@pytest.mark.parametrize(
    ("length", "strides", "size", "parts"),
    [
        (1001, (1001, 1001), 1, (992, 4, 32)),  # rows begin at lines of 32 elements
        (1001, (1008, 1008), 1, (992, 4, 32)),  # and end within a vector
        (133, (133, 133), 1, (128, 1, 8)),  # a line would be too much of a short row
        (20002, (20002, 20002), 2, (10000, 40, 8)),  # lines would leave a part one tile less
        (1001, (1001, 1004), 1, None),  # results begin elsewhere in a vector
    ],
)
def test_parts_of_rows_that_are_no_whole_vectors(
    length: int, strides: tuple[int, ...], size: int, parts: tuple[int, ...] | None
) -> None:
    call = Call("softmax")
    x = call.array("x", np.zeros((2, length), np.float32))
    tiles = {"SIZE": size, "BLOCK": 256}
    assert row_parts(call, x, tiles, *strides) == {}
    result = row_parts(call, x, {}, *strides, unaligned=tiles)
    found = tuple(result[name] for name in ("PART", "COUNT", "VECTOR")) if result else None
    assert found == parts


@pytest.mark.parametrize(
    ("length", "strides", "line", "shift"),
    [
        (904, (904, 904), 128, 64),
        (904, (904, 904), 16, 0),
        (904, (904, 1024), 32, 0),  # results begin elsewhere in a line
        (1000, (1000, 1000), 32, 0),  # a row and a line take one more tile
        (960, (960, 960), 128, 0),
    ],
)
def test_tiles_that_begin_at_lines(
    length: int, strides: tuple[int, ...], line: int, shift: int
) -> None:
    call = Call("layer_norm")
    x = call.array("x", np.zeros((2, length), np.float16))
    for size, expected in ((1, shift), (2, 0)):
        tiles = {"SIZE": size, "BLOCK": 256, "LINE": line}
        assert row_parts(call, x, tiles, *strides).get("SHIFT", 0) == expected


def test_devices_without_clusters_share_no_rows() -> None:
    call = Call("softmax")
    x = call.array("x", np.zeros((2, 32000), np.float32))
    tiles = {"SIZE": 2, "BLOCK": 4096}
    with tile.backend("interp:mma"):
        assert row_parts(call, x, tiles, 32000) == {}
    assert row_parts(call, x, tiles, 32000)["num_ctas"] == 2
