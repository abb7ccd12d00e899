"""The table of PyTorch's operators that this library computes."""

from __future__ import annotations

from tile.ops.aten import (
    activations,
    convolutions,
    lists,
    losses,
    matmuls,
    norms,
    pooling,
    random,
    row_norms,
    rows,
)
from tile.ops.aten.arguments import Implementation, Operators

OPERATORS: dict[str, Implementation] = {
    **activations.OPERATORS,
    **convolutions.OPERATORS,
    **lists.OPERATORS,
    **losses.OPERATORS,
    **matmuls.OPERATORS,
    **norms.OPERATORS,
    **pooling.OPERATORS,
    **random.OPERATORS,
    **row_norms.OPERATORS,
    **rows.OPERATORS,
}


def operators_of(device: str) -> Operators:
    """Return the implementations of PyTorch's operators on a kind of device, by name."""
    own = matmuls.CPU_OPERATORS if device == "cpu" else row_norms.CUDA_OPERATORS
    return {**OPERATORS, **own}
