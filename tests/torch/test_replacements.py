"""`tile.ops.use`: PyTorch's operators computed by `tile.ops`, with PyTorch for the other calls."""

from __future__ import annotations

import pytest
import torch

import tile.ops
from tile.errors import ArgumentError


def model(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.addmm(b, x, w), -1).cumsum(-1).square().sum()


def gradients() -> list[torch.Tensor]:
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((5, 7), (7, 9), (9,))]
    loss = model(*inputs)
    return [loss, *torch.autograd.grad(loss, inputs)]


def test_a_model_and_its_gradients() -> None:
    expected = gradients()
    with tile.ops.use("cpu") as replaced:
        results = gradients()
    torch.testing.assert_close(results, expected)
    assert set(replaced.computed) >= {"aten::addmm", "aten::_softmax", "aten::mm", "aten::cumsum"}
    assert "aten::_softmax: 1 by tile, 0 by PyTorch" in repr(replaced)
    calls = replaced.computed.total()
    gradients()
    assert replaced.computed.total() == calls, "the operators are PyTorch's again"


def test_other_calls_are_left_to_pytorch() -> None:
    x, integers = torch.randn(3, 4, 5), torch.arange(12).reshape(3, 4)
    calls = (
        lambda: torch.softmax(x, 1),
        lambda: integers @ integers.T,
        lambda: integers.cumsum(-1),
        lambda: torch.addmm(torch.ones(3, 3), torch.ones(3, 2), torch.ones(2, 3), beta=2),
        lambda: x.topk(2, largest=False).values,
        lambda: torch.nn.functional.mse_loss(x, x + 1, reduction="sum"),
    )
    expected = [call() for call in calls]
    with tile.ops.use("cpu") as replaced:
        results = [call() for call in calls]
    torch.testing.assert_close(results, expected)
    assert replaced.left.total() == len(calls)


def test_order_embedding_and_loss() -> None:
    x, table = torch.randn(4, 33), torch.randn(6, 5, requires_grad=True)
    index = torch.tensor([[0, 5], [5, 2]])

    def results() -> list[torch.Tensor]:
        rows = torch.nn.functional.embedding(index, table)
        return [
            *x.topk(3),
            *x.sort(stable=True, descending=True),
            *torch.autograd.grad(torch.nn.functional.mse_loss(rows, torch.ones_like(rows)), table),
        ]

    expected = results()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(results(), expected)
    assert not replaced.left


def test_no_such_device() -> None:
    with pytest.raises(ArgumentError, match="use takes the kind of a device, 'cpu' or 'cuda'"):
        tile.ops.use("tpu")
