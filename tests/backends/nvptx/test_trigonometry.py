"""Sines and cosines in f32: their error by the constants of the emitter, and their branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.backends.nvptx.assembling import Use, around, check, fragment
from tile.backends.nvptx.emit.trigonometry import COSINE, LIMIT, ROUNDING, SINE, TERMS, TWO_OVER_PI
from tile.ir.declare import OPS
from tile.ir.types import F32

Floats = np.ndarray[Any, np.dtype[np.float32]]


def fma(x: Any, y: Any, z: Any) -> Floats:
    """Return x * y + z of float32 numbers; float64 holds x * y exactly."""
    return (np.float64(np.float32(x)) * y + np.float64(np.float32(z))).astype(np.float32)


def polynomial(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = fma(total, x, coefficient)
    return total


def by_terms(x: Floats, cosine: bool) -> Floats:
    """Return the sine or cosine as the emitted instructions compute it."""
    shifted = fma(x, np.float32(TWO_OVER_PI), ROUNDING)
    j, t = shifted - np.float32(ROUNDING), x
    for term in TERMS:
        t = fma(j, -np.float32(term), t)
    square = t * t
    sine = fma(polynomial(square, SINE), fma(square, t, 0.0), t)
    cosine_of_t = fma(polynomial(square, COSINE), square, 1.0)
    quadrant = shifted.view(np.int32) + cosine
    value = np.where(quadrant & 1, cosine_of_t, sine)
    return np.where(quadrant & 2, -value, value)


@pytest.mark.parametrize("function", [np.sin, np.cos], ids=["sin", "cos"])
@pytest.mark.parametrize("greatest", [1.0, 100.0, LIMIT])
def test_errors_are_below_2_units_in_the_last_place(
    function: Callable[..., Any], greatest: float
) -> None:
    random = np.random.default_rng(5)
    x = random.uniform(-greatest, greatest, 1 << 19)
    near_zeros = random.integers(0, int(greatest), 1 << 17) * (np.pi / 2)
    x = np.concatenate([x, near_zeros[near_zeros < greatest]]).astype(np.float32)
    exact = function(x.astype(np.longdouble))
    units = np.spacing(np.abs(exact.astype(np.float32))).astype(np.longdouble)
    assert (np.abs(by_terms(x, function is np.cos) - exact) / units).max() < 2


def test_the_sine_of_a_negative_zero_is_one() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    assert np.signbit(by_terms(zeros, cosine=False)).tolist() == [False, True]


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_thread_branches_once_for_all_elements(name: str) -> None:
    ptx = check(around([Use(OPS[name], (fragment(F32),))]), "sm_90a")
    kernel = ptx[ptx.index(".entry") :]
    calls = kernel.count("call.uni")
    assert calls > 1
    assert kernel.count("bra \t") == 1
    assert ptx.count(f"__nv_{name}f") >= calls
