"""PyTorch's dropout, with random bits of this library."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Operators, require, torch_module
from tile.ops.pointwise.dropout import dropout


def _dropout(args: Arguments) -> tuple[Any, Any]:
    """Return the result and the mask of elements that are not dropped.

    The seed is drawn from PyTorch's generator on the host, which `torch.manual_seed` sets.
    """
    x, p = args.input, args.p
    require(args.train is not False and p < 1, "nothing or everything is dropped")
    # Before a seed is drawn, so that a call that is left to PyTorch has the same random bits.
    require(x.is_floating_point() and x.is_contiguous(), "the input is not contiguous")
    torch = torch_module()
    seed = int(torch.randint(2**62, ()))
    result = dropout(x, p, seed)
    return result, dropout(torch.ones_like(x), p, seed) != 0


OPERATORS: Operators = MappingProxyType({"aten::native_dropout": _dropout})
