"""Quotients by reciprocals are exact for every dividend and divisor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simt.threads import Threads
from tile.ir.core import Function, Operation
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.passes import parse_pipeline, run_pipeline
from tile.ir.types import I32

COUNT = 64
TEXT = f"""
func @both(%n: frag<{COUNT}xi32>, %d: i32) -> (frag<{COUNT}xi32>, frag<{COUNT}xi32>) {{
  %b = frag_splat %d {{count = {COUNT}}} : frag<{COUNT}xi32>
  %q = div %n, %b : frag<{COUNT}xi32>
  %r = rem %n, %b : frag<{COUNT}xi32>
  return %q, %r
}}
"""
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
NUMBERS = st.integers(INT_MIN, INT_MAX) | st.builds(
    lambda sign, power, more: max(INT_MIN, min(INT_MAX, sign * ((1 << power) + more))),
    st.sampled_from([-1, 1]),
    st.integers(0, 31),
    st.integers(-2, 2),
)


@pytest.fixture(scope="module")
def divide() -> Function:
    module = parse_module(TEXT)
    run_pipeline(module, parse_pipeline("divide-by-invariants"), Level.THREAD)
    (function,) = module
    assert not [op for op in function.walk() if op.name in ("div", "rem") and _is_integer(op)]
    return function


def _is_integer(op: Operation) -> bool:
    return op.result.type.element == I32


def check(divide: Function, dividends: list[int], divisor: int) -> None:
    n = np.resize(np.array(dividends, np.int64), COUNT)
    q, r = Threads(1, 1).call(divide, n.astype(np.int32)[None], np.array([divisor], np.int32))
    quotient = np.abs(n) // abs(divisor) * np.sign(n) * np.sign(divisor)
    np.testing.assert_array_equal(q[0], quotient.astype(np.int32))
    np.testing.assert_array_equal(r[0], (n - quotient * divisor).astype(np.int32))


@given(st.lists(NUMBERS, min_size=1, max_size=COUNT), NUMBERS.filter(bool))
def test_random_numbers(divide: Function, dividends: list[int], divisor: int) -> None:
    check(divide, dividends, divisor)


@pytest.mark.parametrize("sign", [1, -1])
def test_near_multiples(divide: Function, sign: int) -> None:
    """The quotient changes at multiples of the divisor: the greatest ones err first."""
    divisors = [
        *range(1, 300),
        *(2**power + more for power in range(9, 31) for more in range(-3, 4)),
    ]
    for divisor in (*divisors, INT_MAX):
        greatest = INT_MAX // divisor * divisor
        near = [greatest - divisor, greatest, divisor, 0, INT_MAX, INT_MIN]
        dividends = [n + more for n in near for more in (-1, 0, 1)]
        both = [n for n in (*dividends, *(-n for n in dividends)) if INT_MIN <= n <= INT_MAX]
        check(divide, both, sign * divisor)


def test_the_least_divisor(divide: Function) -> None:
    check(divide, [INT_MIN, INT_MIN + 1, INT_MAX, 0, 1, -1], INT_MIN)


def test_division_by_zero_is_harmless(divide: Function) -> None:
    Threads(1, 1).call(divide, np.zeros((1, COUNT), np.int32), np.array([0], np.int32))
