"""Functions that the kernels of several ops call."""

from __future__ import annotations

import tile.language as tl
from tile.runtime.jit import jit


@jit
def widen(x):
    """Return `x` in the type of the arithmetic: float64 stays, other floats become float32."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)
