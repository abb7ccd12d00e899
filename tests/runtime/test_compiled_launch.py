"""Repeated launches of compiled kernels, on a backend that records its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile
from tests.runtime.fake_torch import Parameter, Tensor, aligned
from tests.runtime.kernels import add
from tests.runtime.test_fast_path import Noting, addresses, install_noting, three
from tile.errors import ArgumentError
from tile.runtime.callbacks import recorded_launches


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    return install_noting(monkeypatch)


def compiled_add(*args: Any) -> Any:
    return tile.jit(add.fn).warmup(*args)


def test_the_second_launch_is_a_repeat(noting: Noting) -> None:
    first, second = three(), three()
    kernel = compiled_add(*first, 101, 32)
    kernel[4,](*first, 101, 32)
    assert (len(noting.launches), noting.repeats) == (1, [])
    kernel[2, 3, 1](*second, 99, 32)
    kernel[5,](*first, 7, 32)
    assert len(noting.launches) == 1
    assert noting.repeats == [
        ((2, 3, 1), (*addresses(second), 99)),
        ((5, 1, 1), (*addresses(first), 7)),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y, out: (Tensor(aligned(64, shift=1)), y, out, 96, 32),
        lambda x, y, out: (Tensor(aligned(64, np.int32)), y, out, 96, 32),
        lambda x, y, out: (x, y, out, 97, 32),
        lambda x, y, out: (x, y, out, 2**40, 32),
        lambda x, y, out: (x, y, out, 96, 64),
        lambda x, y, out: (x, y, out, 96.0, 32),
        lambda x, y, out: (x, y, out, 96),
    ],
    ids=["alignment", "dtype", "divisibility", "width", "constant", "type", "without constants"],
)
def test_other_arguments_are_checked(
    noting: Noting, change: Callable[..., tuple[Any, ...]]
) -> None:
    x, y, out = three()
    kernel = compiled_add(x, y, out, 96, 32)
    kernel[1,](x, y, out, 96, 32)
    kernel[1,](x, y, out, 32, 32)
    assert len(noting.repeats) == 1
    other = change(x, y, out)
    if len(other) == 4:
        kernel[1,](*other)
    else:
        with pytest.raises(ArgumentError):
            kernel[1,](*other)
    assert len(noting.repeats) == 1


def test_a_grid_function_gets_constants_and_options(noting: Noting) -> None:
    tensors = three()
    kernel = compiled_add(*tensors, 101, 32)
    metas: list[dict[str, Any]] = []

    def grid(meta: dict[str, Any]) -> tuple[int]:
        metas.append(meta)
        return (3,)

    kernel[grid](*tensors, 101, 32)
    kernel[grid](*tensors, 99, 32)
    assert noting.repeats == [((3, 1, 1), (*addresses(tensors), 99))]
    assert [meta["n"] for meta in metas] == [101, 99]
    assert metas[0].keys() == metas[1].keys()
    assert metas[1]["BLOCK"] == 32 and metas[1]["num_warps"] == 4


def test_launch_callbacks_see_every_launch(noting: Noting) -> None:
    tensors = three()
    kernel = compiled_add(*tensors, 101, 32)
    kernel[1,](*tensors, 101, 32)
    with recorded_launches() as launches:
        kernel[1,](*tensors, 101, 32)
    assert len(launches) == 1
    assert noting.repeats == []


def test_an_empty_grid_launches_nothing(noting: Noting) -> None:
    tensors = three()
    kernel = compiled_add(*tensors, 101, 32)
    kernel[0,](*tensors, 101, 32)
    assert (noting.launches, noting.bound) == ([], [])


def test_a_replaced_run_is_called(noting: Noting) -> None:
    tensors = three()
    kernel = compiled_add(*tensors, 101, 32)
    calls: list[Any] = []
    kernel.run = lambda *args, grid: calls.append((grid, args))
    kernel[1,](*tensors, 101, 32)
    assert calls == [((1,), (*tensors, 101, 32))]


def test_a_run_that_is_replaced_after_fast_launches_is_called(noting: Noting) -> None:
    tensors = three()
    kernel = compiled_add(*tensors, 101, 32)
    for _ in range(2):
        kernel[1,](*tensors, 101, 32)
    calls: list[Any] = []
    kernel.run = lambda *args, grid: calls.append(grid)
    kernel[1,](*tensors, 101, 32)
    assert calls == [(1,)] and len(noting.repeats) == 1


def test_calls_of_two_shapes_that_alternate(noting: Noting) -> None:
    tensors = three()
    others = [Parameter(tensor.array) for tensor in tensors]
    kernel = compiled_add(*tensors, 101, 32)
    for arrays in (tensors, others):
        kernel[1,](*arrays, 101, 32)
    noting.launches.clear()
    for _ in range(5):
        for arrays in (tensors, others):
            kernel[1,](*arrays, 101, 32)
    assert (noting.launches, len(noting.repeats)) == ([], 10)
