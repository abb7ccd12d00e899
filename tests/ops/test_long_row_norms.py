"""Norms of long rows, which a program reads twice with the configurations of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile.ops
from tile.ops.core.call import Call
from tile.ops.core.reference import Array
from tile.ops.rowwise import row_norms
from tile.ops.rowwise.long_row_norms import blocks_of


@pytest.fixture(autouse=True)
def configurations(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run the configurations of nvptx on the interpreter; the result has those that ran."""
    chosen: list[dict[str, Any]] = []

    def of(_: str, *args: Any, **options: Any) -> dict[str, Any]:
        chosen.append(blocks_of("nvptx", *args, **options))
        return chosen[-1]

    monkeypatch.setattr(row_norms, "blocks_of", of)
    return chosen


def normalized(x: Array, weight: Array, bias: Array | None) -> Array:
    x = x.astype(np.float64)
    if bias is None:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight
    apart = x - x.mean(axis=1, keepdims=True)
    return apart / np.sqrt((apart * apart).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


@pytest.mark.parametrize(
    ("length", "dtype", "place"),
    [
        (8193, "f4", "new"),
        (9001, "f2", "same"),
        (16384, "f2", "new"),
        (20000, "f4", "same"),
        (20000, "f8", "new"),
        (40000, "f2", "new"),
    ],
)
@pytest.mark.parametrize("centered", [False, True])
def test_rows_are_normalized(
    configurations: list[dict[str, Any]], length: int, dtype: str, place: str, centered: bool
) -> None:
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((3, length)) + (100 if dtype != "f2" else 1)).astype(dtype)
    weight, bias = rng.standard_normal((2, length)).astype(dtype)
    expected = normalized(x, weight, bias if centered else None)
    op, vectors = (
        (tile.ops.layer_norm, (weight, bias)) if centered else (tile.ops.rms_norm, (weight,))
    )
    result = op(x, *vectors, eps=1e-5, out=x if place == "same" else None)
    limits = {"f2": 4e-3, "f4": 4e-5, "f8": 1e-12}
    np.testing.assert_allclose(result, expected, rtol=limits[dtype], atol=limits[dtype])
    assert configurations[-1] != {}


def test_an_element_far_from_the_mean_loses_no_digits() -> None:
    x = np.random.default_rng(0).standard_normal((2, 12288)).astype(np.float32)
    x[:, 0] += 1e4  # the first element of a lane, from which it counts
    x[1] += 1e3
    weight, bias = np.ones(12288, np.float32), np.zeros(12288, np.float32)
    result = tile.ops.layer_norm(x, weight, bias)
    np.testing.assert_allclose(result, normalized(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_a_sample_may_be_far_from_the_mean() -> None:
    x = np.random.default_rng(0).standard_normal((2, 12288)).astype(np.float16)
    x[:, :32] += 1000
    x[1, 32:] += 100
    weight, bias = np.ones(12288, np.float16), np.zeros(12288, np.float16)
    result = tile.ops.layer_norm(x, weight, bias)
    np.testing.assert_allclose(result, normalized(x, weight, bias), rtol=2e-3, atol=2e-3)


def test_tables_choose_registers_for_other_backends() -> None:
    call = Call("test")
    source = call.array("x", np.zeros((1, 20000), np.float32))
    assert blocks_of("interp", source, centered=True) == {}
    assert blocks_of("nvptx", source, centered=True) == {
        "COUNT": 0,
        "SAMPLE": 0,
        "BLOCK": 4096,
        "num_warps": 8,
    }
    assert blocks_of("nvptx", source, centered=False)["num_warps"] == 32
    source = call.array("x", np.zeros((1, 16384), np.float16))
    assert blocks_of("nvptx", source, centered=False)["COUNT"] == 4
