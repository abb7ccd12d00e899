"""PyTorch's dropout, with random bits of this library."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require, torch_module
from tile.ops.pointwise.dropout import dropout


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """Return the result and the mask of elements that are not dropped.

    The seed is drawn from PyTorch's generator on the host, which `torch.manual_seed` sets.
    """
    require(train is not False and p < 1, "nothing or everything is dropped")
    # Before a seed is drawn, so that a call that is left to PyTorch has the same random bits.
    require(input.is_floating_point() and input.is_contiguous(), "the input is not contiguous")
    torch = torch_module()
    seed = int(torch.randint(2**62, ()))
    result = dropout(input, p, seed)
    return result, dropout(torch.ones_like(input), p, seed) != 0


OPERATORS: Mapping[str, Implementation] = MappingProxyType({"aten::native_dropout": native_dropout})
