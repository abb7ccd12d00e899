"""Array types and conversions of the references, which compute in float64 with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def wide(*arrays: Array) -> list[Array]:
    """Return copies of arrays in float64."""
    return [np.asarray(array).astype(np.float64) for array in arrays]
