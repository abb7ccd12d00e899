"""Activations of arrays of float64, for references: each function with its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tile.ops.core.reference import Array

Function = Callable[[Array], Array]

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _gelu_gate(x: Array) -> Array:
    return _sigmoid(2 * ROOT * (x + CUBIC * x**3))


def _gelu_slope(x: Array) -> Array:
    s = _gelu_gate(x)
    result: Array = s + x * s * (1 - s) * 2 * ROOT * (1 + 3 * CUBIC * x**2)
    return result


def _normal(x: Array) -> Array:
    """Return the shares of a normal distribution below elements."""
    result: Array = 0.5 + 0.5 * np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))
    return result


REFERENCES: dict[str, tuple[Function, Function]] = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(np.float64)),
    "silu": (
        lambda x: x * _sigmoid(x),
        lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    ),
    "gelu": (lambda x: x * _gelu_gate(x), _gelu_slope),
    "gelu_erf": (
        lambda x: x * _normal(x),
        lambda x: _normal(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
    ),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x))),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}
