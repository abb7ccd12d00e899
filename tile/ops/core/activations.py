"""Activations by name: device functions with their derivatives, and the same in NumPy.

Arithmetic is in float32, or float64 for float64. `gelu` is the approximation by tanh (Hendrycks and
Gimpel, arXiv:1606.08415), whose error against `gelu_erf` is below 5e-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.activation_references import REFERENCES, Function

ROOT = tl.constexpr(0.7978845608028654)  # sqrt(2 / pi)
CUBIC = tl.constexpr(0.044715)
HALF_ROOT = tl.constexpr(0.7071067811865476)  # sqrt(1 / 2)
DENSITY = tl.constexpr(0.3989422804014327)  # 1 / sqrt(2 pi)


@tile.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@tile.jit
def relu(x):
    # A comparison is false for NaN, which a maximum with 0 might drop.
    return tl.where(x < 0, 0.0, x)


@tile.jit
def relu_slope(x):
    return tl.where(x <= 0, 0.0, 1.0)


@tile.jit
def silu(x):
    return x * sigmoid(x)


@tile.jit
def silu_slope(x):
    s = sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


@tile.jit
def gelu(x):
    # (1 + tanh(u)) / 2 is sigmoid(2 u).
    return x * sigmoid(2.0 * ROOT * (x + CUBIC * x * x * x))


@tile.jit
def gelu_slope(x):
    s = sigmoid(2.0 * ROOT * (x + CUBIC * x * x * x))
    return s + x * s * (1.0 - s) * 2.0 * ROOT * (1.0 + 3.0 * CUBIC * x * x)


@tile.jit
def gelu_erf(x):
    return x * (0.5 + 0.5 * tl.erf(HALF_ROOT * x))


@tile.jit
def gelu_erf_slope(x):
    return 0.5 + 0.5 * tl.erf(HALF_ROOT * x) + x * DENSITY * tl.exp(-0.5 * x * x)


@tile.jit
def sigmoid_slope(x):
    return sigmoid_result_slope(sigmoid(x))


@tile.jit
def sigmoid_result_slope(y):
    return y * (1.0 - y)


@tile.jit
def tanh(x):
    return tl.tanh(x)


@tile.jit
def tanh_slope(x):
    return tanh_result_slope(tl.tanh(x))


@tile.jit
def tanh_result_slope(y):
    return 1.0 - y * y


@dataclass(frozen=True)
class Activation:
    """A function of a real number: for kernels, and for arrays of float64.

    result_slope: the derivative as a function of the result, for functions that have one.
    """

    function: Any
    slope: Any
    reference: Function
    reference_slope: Function
    result_slope: Any = None


ACTIVATIONS = {
    "relu": Activation(relu, relu_slope, *REFERENCES["relu"], relu_slope),
    "silu": Activation(silu, silu_slope, *REFERENCES["silu"]),
    "gelu": Activation(gelu, gelu_slope, *REFERENCES["gelu"]),
    "gelu_erf": Activation(gelu_erf, gelu_erf_slope, *REFERENCES["gelu_erf"]),
    "sigmoid": Activation(sigmoid, sigmoid_slope, *REFERENCES["sigmoid"], sigmoid_result_slope),
    "tanh": Activation(tanh, tanh_slope, *REFERENCES["tanh"], tanh_result_slope),
}
