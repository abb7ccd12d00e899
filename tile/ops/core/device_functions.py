"""Functions that the kernels of several ops call."""

from __future__ import annotations

import tile.language as tl
from tile.language.extra import libdevice
from tile.runtime.jit import jit


@jit
def widen(x):
    """Return `x` in the type of the arithmetic: float64 stays, other floats become float32."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@jit
def logarithm(x, FAST: tl.constexpr):
    """Return log x; if FAST, with an absolute error of 1e-7 in place of a relative one.

    By lg2.approx.f32 (PTX ISA, "lg2"), two instructions in place of 24: with these, sums of losses
    in float16 take longer than their loads.
    """
    return libdevice.fast_logf(x) if FAST else tl.log(x)
