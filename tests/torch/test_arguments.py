"""Tensors that stand for others, or have no plain memory: each has its own message."""

import pytest
import torch

from tests.torch.kernels import scale
from tile.errors import ArgumentTypeError


def launch(x) -> None:
    scale[1,](x, torch.empty(8), 8, 2.0, False, BLOCK=8)


def refused(function, *arguments) -> str:
    with pytest.raises(ArgumentTypeError) as info:
        function(*arguments)
    return str(info.value)


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad, torch.func.functionalize])
def test_transformations(transform) -> None:
    message = refused(transform(launch), torch.ones(8))
    assert "'x_ptr' of scale() is a tensor inside of a transformation" in message
    assert "in an operator of tile.torch.op" in message


def test_tensors_without_memory() -> None:
    message = refused(launch, torch.ones(8, device="meta"))
    assert "'x_ptr' of scale() is a torch tensor on the meta device" in message


def test_symbolic_tracing() -> None:
    message = refused(torch.fx.symbolic_trace, launch)
    assert "is a Proxy, with which torch.fx traces a program" in message
    assert "in a function that torch.compile compiles, or in an operator" in message


def test_nested_tensors() -> None:
    with pytest.warns(UserWarning, match="prototype"):
        nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])
    assert "is a nested tensor of torch; pass one of its parts" in refused(launch, nested)
