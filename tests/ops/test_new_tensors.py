"""New tensors of replays, which TorchInductor's function makes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from typing import Any

import numpy as np
import torch

from tile.ops.core.generated import Names, execute
from tile.ops.core.new_arrays import maker_of, strided_maker
from tile.ops.core.new_tensors import NewTensor, device_conditions, tuple_of


def made_again(text: str, names: Names, like: torch.Tensor) -> Any:
    source = f"def ~make(x):\n    return {text}\n"
    return execute(source, ["x"], **names.values)["make"](like)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (5, 6)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_new_tensor(shape: tuple[int, ...], dtype: str) -> None:
    like = torch.zeros(3, 4, dtype=torch.float16)
    made = maker_of(torch.Tensor)(like, shape, np.dtype(dtype))
    names = Names()
    text = NewTensor(shape, like, "x", made).text(names)
    again = made_again(text, names, like)
    assert "empty" in text and again is not made
    assert (again.shape, again.dtype, again.device) == (made.shape, made.dtype, made.device)
    assert again.stride() == made.stride() and not again.requires_grad
    assert device_conditions([made], names) == []


def test_a_tuple_of_new_tensors() -> None:
    like, make = torch.zeros(3, 4), maker_of(torch.Tensor)
    kinds: list[tuple[tuple[int, ...], str]] = [
        ((2, 3), "float32"),
        ((), "float16"),
        ((0,), "int32"),
    ]
    tensors = [
        NewTensor(shape, like, "x", make(like, shape, np.dtype(dtype))) for shape, dtype in kinds
    ]
    names = Names()
    again = made_again(tuple_of(tensors, names), names, like)
    assert [(x.shape, x.stride(), x.dtype) for x in again] == [
        (one.made.shape, one.made.stride(), one.made.dtype) for one in tensors
    ]


def test_devices_without_such_a_function() -> None:
    assert strided_maker(torch.device("cpu")) is not None
    assert strided_maker(torch.device("meta")) is None
