"""Division by a multiplication is that of integers."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.ops.core.division import divisor, quotient

MOST = 2**31 - 1
NUMBERS = (
    1,
    2,
    3,
    5,
    7,
    28,
    56,
    641,
    2**15 + 1,
    2**16,
    10**9 + 7,
    2**30,
    2**30 + 1,
    MOST - 1,
    MOST,
)


@tile.jit(do_not_specialize=("by",))
def quotients_kernel(n_ptr, out_ptr, by, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, quotient(tl.load(n_ptr + at), by))


@pytest.mark.parametrize("number", NUMBERS)
def test_quotients_are_those_of_integers(number: int) -> None:
    near = [number * k + d for k in (1, 2, 3, MOST // number) for d in (-1, 0, 1)]
    some = np.random.default_rng(0).integers(0, MOST, 1000).tolist()
    values = [value for value in (*near, 0, 1, MOST, *some) if 0 <= value <= MOST]
    n = np.array((values + [0] * 1024)[:1024], np.int32)
    out = np.empty_like(n)
    quotients_kernel[(1,)](n, out, divisor(number), BLOCK=1024)
    np.testing.assert_array_equal(out, n // number)
    assert 2**31 <= divisor(number) % 2**32 and divisor(number) < 2**37
