"""Elementary functions of f32 are within their stated error, on many numbers and all special ones.

The reference is the function in f64, whose error is below 2^-28 units in the last place of f32.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.conformance.kernels import Step, around_all
from tests.conformance.running import Array, Device, assert_close
from tests.conformance.values import placeholder
from tile.ir import semantics
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops import math as math_ops
from tile.ir.types import F32, Tile

FUNCTIONS = [defn for defn in OPS if defn.accepts == math_ops.REALS]
EVERYWHERE = (-3e38, 3e38)
BLOCK = 1024
# A simulated machine executes each thread, so it gets a sample.
MANY, SAMPLE = 1 << 20, 1 << 14

LEAST = float(np.finfo(np.float32).smallest_normal)
SPECIAL = (
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5),
    *(LEAST, -LEAST, math.pi, math.pi / 2, math.e, math.log(2), 1 + 2.0**-23, 1 - 2.0**-24),
)


def numbers(defn: OpDef, count: int) -> Array:
    """Return numbers of the domain: uniform, of all magnitudes, special ones, and its ends."""
    low, high = defn.domain or EVERYWHERE
    rng = np.random.default_rng(8)
    third = count // 3
    magnitudes = np.exp(rng.uniform(math.log(max(low, LEAST)), math.log(high), third))
    near_one = 1 + rng.uniform(-0.01, 0.01, third)
    parts = [magnitudes * (rng.choice([-1, 1], third) if low < 0 else 1), near_one]
    parts += [rng.uniform(low, high, count - 2 * third)]
    x = np.clip(np.concatenate(parts), low, high).astype(np.float32)
    x[: len(SPECIAL)] = SPECIAL
    x[len(SPECIAL) : len(SPECIAL) + 2] = low, high
    return x


def exact(defn: OpDef, x: Array) -> Array:
    """Return the function in f64, rounded to f32."""
    assert defn.semantics is not None
    with semantics.quiet():
        return defn.semantics(x.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize("defn", FUNCTIONS, ids=lambda defn: defn.name)
def test_functions_are_as_accurate_as_stated(device: Device, defn: OpDef) -> None:
    x = numbers(defn, SAMPLE if device.target.startswith("interp:") else MANY)
    y = placeholder(F32, len(x))
    step = Step(defn, (Tile((BLOCK,), F32),), {})
    with semantics.quiet():
        device.run(around_all([step], masked=False), (len(x) // BLOCK, 1, 1), [x, y, np.int32(0)])
    wanted = exact(defn, x)
    low, high = defn.domain or EVERYWHERE
    inside = (x >= low) & (x <= high)
    assert_close(y[inside], wanted[inside], defn.ulp, defn.name)
    # Results that are not finite are the same; limits at infinities have the function's error, as
    # PoCL has 0.99999994 for tanh on some processors.
    ends, limits = ~np.isfinite(wanted), ~np.isfinite(x) & np.isfinite(wanted)
    assert_close(y[ends], wanted[ends], 0, f"{defn.name} of {x[ends]}")
    assert_close(y[limits], wanted[limits], defn.ulp, f"{defn.name} of {x[limits]}")
