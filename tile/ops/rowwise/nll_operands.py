"""The operands that the negative log likelihood and its gradient share."""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.rowwise.labels import labels_of

BLOCK = 1024


@tile.jit
def weight_of(weight_ptr, target, used):
    """Return the weights of targets, 1 without an array of them; those not used have 0."""
    if weight_ptr is None:
        return tl.where(used, 1.0, 0.0)
    else:
        return widen(tl.load(weight_ptr + target, mask=used, other=0.0))


def nll_labels(
    call: Call, target: Any, weight: Any, rows: int, classes: int, ignore_index: int
) -> None:
    """Raise `ArgumentError` unless there is a class for each row, and a weight for each class."""
    if weight is not None:
        call.vectors(classes, weight=weight)
    labels_of(call, target, rows, classes, ignore_index)


def nll_weights(target: Array, weight: Array | None, classes: int, ignored: int) -> Array:
    """Return the weight of each row's class, 0 for ignored ones, for references."""
    weights = np.ones(classes) if weight is None else wide(weight)[0]
    return np.where(
        target == ignored, 0.0, np.append(weights, 0.0)[np.where(target < 0, -1, target)]
    )
