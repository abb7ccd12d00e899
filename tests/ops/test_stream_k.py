"""Stream-K: however many programs share the tiles, the result is that of the plain matmul."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tests import needs
from tile.ops.core.tables import ANY, Table
from tile.ops.linear import configurations, matmul, stream_k

# On the interpreter a tile is 64 x 64, with steps of 32.
SIZES = {
    "fewer tiles than programs": (70, 60, 300),
    "a whole tile each, and shared ones": (140, 190, 200),
    "as many tiles as programs": (128, 128, 128),
    "less than one iteration each": (60, 50, 40),
}


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    # Small integers: sums are exact in any order.
    a, b = (random.integers(-3, 4, shape) for shape in ((m, k), (k, n)))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("programs", [1, 2, 3, 4, 7, 40])
@pytest.mark.parametrize("size", SIZES.values(), ids=list(SIZES))
def test_programs(
    size: tuple[int, int, int], programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_k, "OTHER_PROGRAMS", programs)
    a, b = operands(*size)
    with tile.backend("interp"), tile.sanitize():
        np.testing.assert_array_equal(tile.ops.matmul(a, b, splits="stream"), a @ b)
    cast(Any, tile.ops.matmul).plans.clear()  # they have the grid of so many programs


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        pytest.param("opencl", "float32", id="opencl", marks=needs.pyopencl),
        pytest.param("interp:wgmma", "float16", id="wgmma"),
    ],
)
def test_other_backends(backend: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "interp:wgmma":  # the configurations of an H100
        select = Table.select
        monkeypatch.setattr(
            Table, "select", lambda table, _, *sizes: select(table, "nvptx", *sizes)
        )
    a, b = (x.astype(dtype) for x in operands(140, 190, 512))
    with tile.backend(backend):
        result = tile.ops.matmul(a, b, splits="stream")
    np.testing.assert_array_equal(
        result, (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    )


def test_shapes_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    stream = matmul.stream_matmul

    def recording(*arguments: Any, **options: Any) -> None:
        chosen.append(arguments[3][1:])
        stream(*arguments, **options)

    monkeypatch.setattr(matmul, "stream_matmul", recording)
    measured = {(64, 16, 256): {"stream": True}, (ANY, ANY, ANY): {"stream": False}}
    monkeypatch.setattr(configurations, "STREAMED", Table(measured, {}))
    cast(Any, tile.ops.matmul).plans.clear()
    for size in ((64, 16, 256), (64, 17, 256)):
        a, b = (x.astype(np.float16) for x in operands(*size))
        for splits in (None, 1):
            with tile.backend("interp"):
                result = tile.ops.matmul(a, b, splits=splits)
            np.testing.assert_array_equal(result, (a.astype(float) @ b).astype(np.float16))
    cast(Any, tile.ops.matmul).plans.clear()
    assert chosen == [(64, 16, 256)]


def test_other_words_are_refused() -> None:
    a, b = operands(4, 4, 4)
    with pytest.raises(tile.TileError, match="`splits` is 'even'; it must be None, 1 or more, or"):
        tile.ops.matmul(a, b, splits="even")
