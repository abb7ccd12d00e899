"""Functions that TorchDynamo traces in place of those that read a tensor's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ALIGNMENT = 16  # bytes; a multiple of any element's size, for the strides of axes of extent 1


def described(tensor: Any, block_shape: Sequence[int], padding: str = "zero") -> tuple[Any, ...]:
    """Return the fields of the descriptor of a whole tensor."""
    strides = [step if n > 1 else ALIGNMENT for n, step in zip(tensor.shape, tensor.stride())]  # noqa: B905 - TorchDynamo
    strides[-1] = 1
    return tensor, tuple(tensor.shape), tuple(strides), block_shape, padding


def fields(
    base: Any,
    shape: Sequence[int],
    strides: Sequence[int],
    block_shape: Sequence[int],
    padding: str = "zero",
) -> tuple[Any, ...]:
    """Return the fields of a descriptor from the arguments of its class."""
    return base, shape, strides, block_shape, padding
