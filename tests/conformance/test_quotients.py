"""Quotients where compilers take for granted that no divisor is 0, and that each quotient fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device
from tests.conformance.values import random_array
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import I32, INTEGERS, SIGNED, Scalar
from tile.runtime.signature import ALIASES

SIZE, GUARD = 128, 77
NAMES = {ty: name for name, ty in ALIASES.items()}


@tile.jit
def chosen(x_ptr, y_ptr, q_ptr, r_ptr, SIZE: tl.constexpr):
    """Facts about a divisor that hold after the quotient must not be used before it is selected."""
    i = tl.arange(0, SIZE)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    quotient, remainder = x // y, x % y
    tl.store(q_ptr + i, tl.where(y != 0, quotient, 5))
    tl.store(r_ptr + i, tl.where(y == 0, 6, remainder))


@tile.jit
def guarded(x_ptr, y_ptr, q_ptr, r_ptr, count, SIZE: tl.constexpr):
    """Lanes outside have a divisor of 0, and must stay outside."""
    i = tl.arange(0, SIZE)
    mask = i < count
    x, y = tl.load(x_ptr + i, mask, other=7), tl.load(y_ptr + i, mask, other=0)
    by = tl.where(mask, y, 0)
    tl.store(q_ptr + i, x // by, mask)
    tl.store(r_ptr + i, x % by, mask)


def launch(kernel: Any, element: Scalar, device: Device, *arguments: Any) -> None:
    types = {f"{name}_ptr": f"*{NAMES[element]}" for name in "xyqr"}
    if len(arguments) > 4:
        types["count"] = "i32"
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    tile.compile(kernel, types, {"SIZE": SIZE}, options, device.target)[1,](*arguments)


def operands(element: Scalar, divisors: list[int]) -> tuple[Any, Any]:
    """Random dividends, some of which are the least and the greatest; and divisors."""
    rng = np.random.default_rng(element.bits)
    x = random_array(rng, element, SIZE, None)
    x[::5], x[1::7] = element.min_value, element.max_value
    ends = [element.min_value or 1, element.max_value, 1, 3, *divisors]
    return x, rng.choice(np.array(ends, numpy_dtype(element)), SIZE)


def truncated(x: Any, y: Any, element: Scalar) -> tuple[Any, Any]:
    """Quotients towards zero, that wrap, and remainders with the dividend's sign, by Python."""
    quotients, remainders = [], []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        remainders.append(a - quotient * b)
        over = quotient > element.max_value
        quotients.append(quotient - (1 << element.bits) if over else quotient)
    return np.array(quotients, x.dtype), np.array(remainders, x.dtype)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_a_quotient_that_is_not_chosen_does_not_matter(device: Device, element: Scalar) -> None:
    x, y = operands(element, [0, 0, 0] + [-1, -2] * (element in SIGNED))
    q, r = np.zeros_like(x), np.zeros_like(x)
    launch(chosen, element, device, x.copy(), y.copy(), q, r)
    none = y == 0
    assert none.any() and not none.all()
    quotients, remainders = truncated(x, np.where(none, np.ones_like(y), y), element)
    np.testing.assert_array_equal(q, np.where(none, 5, quotients))
    np.testing.assert_array_equal(r, np.where(none, 6, remainders))


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_lanes_outside_may_divide_by_zero(device: Device, element: Scalar) -> None:
    x, y = operands(element, [-1, -2] * (element in SIGNED))
    q, r = np.full_like(x, 9), np.full_like(x, 9)
    launch(guarded, element, device, x.copy(), y.copy(), q, r, GUARD)
    quotients, remainders = truncated(x[:GUARD], y[:GUARD], element)
    np.testing.assert_array_equal(q[:GUARD], quotients)
    np.testing.assert_array_equal(r[:GUARD], remainders)
    assert (q[GUARD:] == 9).all() and (r[GUARD:] == 9).all()


@tile.jit
def of_the_least(x_ptr, SIZE: tl.constexpr):
    """Operands that a compiler knows: it must know the quotient, too."""
    y = tl.arange(0, SIZE) - 1
    least = tl.full((SIZE,), -2147483648, tl.int32)
    tl.store(x_ptr + tl.arange(0, SIZE), least // (y | 1) + least % (y | 1))


def test_the_least_integer_by_minus_one_wraps(device: Device) -> None:
    x = np.zeros(SIZE, np.int32)
    options = {"num_warps": device.options.num_warps}
    types = {"x_ptr": "*i32"}
    tile.compile(of_the_least, types, {"SIZE": SIZE}, options, device.target)[1,](x)
    by = (np.arange(SIZE) - 1) | 1
    exact = -((1 << 31) // np.abs(by)) * np.sign(by)
    left = -(1 << 31) - exact * by
    np.testing.assert_array_equal(x, (exact + left).astype(np.int64).astype(np.int32))


@tile.jit
def by_one(x_ptr, d, q_ptr, r_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    x = tl.load(x_ptr + i)
    tl.store(q_ptr + i, x // d)
    tl.store(r_ptr + i, x % d)


@pytest.mark.parametrize("divisor", [-(2**31), -7, -1, 1, 2, 3, 25, 641, 65536, 2**31 - 1])
def test_one_divisor_of_many_elements(divisor: int, device: Device) -> None:
    size = 4096  # 8 elements or more for each thread
    x = random_array(np.random.default_rng(1), I32, size, None)
    x[::5], x[1::7], x[2::9] = -(2**31), 2**31 - 1, divisor
    types = {"x_ptr": "*i32", "d": "i32", "q_ptr": "*i32", "r_ptr": "*i32"}
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    kernel = tile.compile(by_one, types, {"SIZE": size}, options, device.target)
    quotient, remainder = np.empty_like(x), np.empty_like(x)
    kernel[1,](x, divisor, quotient, remainder)
    expected = truncated(x, np.full_like(x, divisor), I32)
    np.testing.assert_array_equal(quotient, expected[0])
    np.testing.assert_array_equal(remainder, expected[1])
