"""Operands of matmuls that TMA cannot load are copied to aligned rows, on a simulated H100."""

from __future__ import annotations

import importlib
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core import batched_grid
from tile.ops.core.call import Call
from tile.ops.linear.strided import Strided
from tile.runtime.grid import LIMITS

module = importlib.import_module("tile.ops.linear.aligned_rows")
Array = np.ndarray


@pytest.fixture(autouse=True)
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.LEAST, "interp", 2)
    monkeypatch.setattr(module, "LEAST_WORK", 0)
    monkeypatch.setattr(module, "BLOCK", 64)
    cast(Any, tile.ops.matmul).plans.clear()


def integers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(integers(70, 85), integers(85, 75), id="rows"),
        pytest.param(integers(70, 84), integers(84, 76), id="vectors"),
        pytest.param(integers(85, 70).T, integers(75, 85).T, id="columns"),
        pytest.param(integers(70, 88), integers(88, 75), id="one of them"),
        pytest.param(integers(2, 33, 85), integers(85, 75), id="one b for all batches"),
        pytest.param(integers(2, 33, 85), integers(2, 75, 85).transpose(0, 2, 1), id="batches"),
        pytest.param(integers(33, 170)[:, ::2], integers(85, 75), id="every second"),
        pytest.param(integers(33, 85)[::-1], integers(85, 75)[:, ::-1], id="backwards"),
    ],
)
def test_results(a: Array, b: Array) -> None:
    """Also where strides are negative, and of every other element."""
    check(a, b)


@pytest.mark.parametrize("block", [256, 1024])
def test_programs_that_copy_several_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 128 elements, of which neither 2 nor 8 divide the number."""
    monkeypatch.setattr(module, "BLOCK", block)
    check(integers(3, 33, 85), integers(3, 85, 76))
    check(integers(33, 84), integers(84, 76))


def check(a: Array, b: Array) -> None:
    bias = integers(b.shape[-1])
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, bias, "relu")
    np.testing.assert_array_equal(result, np.maximum(np.float32(a) @ np.float32(b) + bias, 0))


def test_more_batches_than_an_axis_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_grid, "LIMITS", (LIMITS[0], 2, LIMITS[2]))
    check(integers(5, 33, 85), integers(5, 85, 75))


@pytest.mark.parametrize(
    ("sizes", "a_copied", "b_copied"),
    [
        pytest.param((512, 512, 513), True, False, id="rows of b are aligned"),
        pytest.param((512, 514, 514), True, True, id="both"),
        pytest.param((512, 10, 4096), False, False, id="few multiplications"),
        pytest.param((4096, 10, 4096), False, True, id="many by few elements"),
        pytest.param((16, 513, 8192), False, False, id="elements are used too little"),
        pytest.param((130, 130, 130), False, False, id="small"),
    ],
)
def test_what_is_copied(
    sizes: tuple[int, int, int], a_copied: bool, b_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operands are row-major."""
    monkeypatch.undo()
    monkeypatch.setattr(module, "launch", lambda *_, **__: lambda *_, **__: None)
    monkeypatch.setattr(Call, "backend", "nvptx")
    m, n, k = sizes
    call, arrays = Call("matmul"), [np.zeros(s, np.float16) for s in ((m, k), (k, n))]
    for name, array in zip("ab", arrays, strict=True):
        call.array(name, array)
    a, b = (Strided(x, (0, x.shape[1], 1)) for x in arrays)
    one, other = module.aligned_operands(call, a.value.dtype, a, b, (1, m, n, k))
    assert (one is not a, other is not b) == (a_copied, b_copied)
    assert all(x.strides[1] % 64 == 0 for x in (one, other) if x is not a and x is not b)
