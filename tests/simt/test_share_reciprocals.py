"""Quotients by shared reciprocals are as near as `div` promises, for all floats."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt.threads import Threads
from tests.ulp import ulp_distance
from tile.ir.core import Function
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.passes import parse_pipeline, run_pipeline

COUNT = 64
TEXT = f"""
func @quotients(%x: frag<{COUNT}xf32>, %d: f32) -> (frag<{COUNT}xf32>) {{
  %b = frag_splat %d {{count = {COUNT}}} : frag<{COUNT}xf32>
  %q = div %x, %b : frag<{COUNT}xf32>
  return %q
}}
"""
SPECIAL = (0.0, 1e-45, 1e-40, 2.0**-127, 2.0**-126, 1.0, 2.0**126, 1.9 * 2.0**126, 3e38, np.inf)


@pytest.fixture(scope="module")
def divide() -> Function:
    module = parse_module(TEXT)
    run_pipeline(module, parse_pipeline("share-reciprocals{target=wgmma}"), Level.THREAD)
    (function,) = module
    assert [op.name for op in function.walk()].count("mul") == 3, "the divisor, and twice the rest"
    return function


def numbers(rng: np.random.Generator, count: int) -> np.ndarray:
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("seed", range(8))
def test_quotients(divide: Function, seed: int) -> None:
    rng = np.random.default_rng(seed)
    divisors = [*numbers(rng, 40), *np.float32(SPECIAL), *-np.float32(SPECIAL), np.float32(np.nan)]
    for d in map(np.float32, divisors):
        x = numbers(rng, COUNT)
        x[: 2 * len(SPECIAL)] = np.float32([*SPECIAL, *(-n for n in SPECIAL)])
        x[-1] = d
        (result,) = Threads(1, 1).call(divide, x[None], np.array([d], np.float32))
        with np.errstate(all="ignore"):
            right = x / d
        assert np.array_equal(np.isnan(result[0]), np.isnan(right)), d
        number = ~np.isnan(right)
        assert ulp_distance(result[0][number], right[number]).max(initial=0) <= 2, d
