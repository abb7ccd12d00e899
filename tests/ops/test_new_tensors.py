"""New tensors of replays, which TorchInductor's function makes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from tile.ops.core.call_records import NewArray
from tile.ops.core.generated import Names, execute
from tile.ops.core.new_arrays import maker_of, strided_maker
from tile.ops.core.replay_arrays import device_conditions, new_array


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (5, 6)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_new_tensor(shape: tuple[int, ...], dtype: str) -> None:
    like = torch.zeros(3, 4, dtype=torch.float16)
    new = NewArray(0, maker_of(torch.Tensor), shape, np.dtype(dtype))
    made = new.make(like, new.shape, new.dtype)
    names = Names()
    text = f"def ~make(x):\n    return {new_array(new, like, made, 'x', names)}\n"
    again = execute(text, ["x"], **names.values)["make"](like)
    assert "empty" in text and again is not made
    assert (again.shape, again.dtype, again.device) == (made.shape, made.dtype, made.device)
    assert again.stride() == made.stride() and not again.requires_grad
    assert device_conditions([made], names) == []


def test_devices_without_such_a_function() -> None:
    assert strided_maker(torch.device("cpu")) is not None
    assert strided_maker(torch.device("meta")) is None
