"""The epilogue of matmuls and convolutions: a bias and an activation, and the precision of dots."""

from __future__ import annotations

from typing import Any

from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.call import Call

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")  # `input_precision` of `tl.dot`


def epilogue_of(
    call: Call, columns: int, bias: Any, precision: Any, activation: str | None = None
) -> Any:
    """Return the device function of an activation, or None; raise `ArgumentError` for wrong ones.

    bias: None, or an element for each of the columns, of any float type.
    """
    call.choice("precision", precision, PRECISIONS)
    if bias is not None:
        call.vectors(columns, bias=bias)
    if activation is None:
        return None
    return ACTIVATIONS[call.choice("activation", activation, tuple(ACTIVATIONS))].function
