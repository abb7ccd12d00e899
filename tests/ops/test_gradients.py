"""The references of gradients agree with differences of those of the forward passes, in float64.

The sum of a gradient times a direction is the slope of the loss, `sum of weights * result`, along
that direction: a central difference of it has an error of the order of STEP squared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.ops.cases import reference_of, several
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.sequence.attention_loop import LOG2_E

Array = np.ndarray[Any, Any]
STEP = 1e-5


@dataclass(frozen=True)
class Gradient:
    """A forward op, its arguments of which some are differentiated, and how to call the backward.

    backward: takes the gradient of the result, the arguments and the result.
    """

    op: str
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    backward: Callable[..., Any]
    differentiated: tuple[int, ...] = (0,)


def of(op: str) -> Callable[..., Any]:
    return reference_of(f"{op}_backward")


def normals(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda random: tuple(random.standard_normal(shape) for shape in shapes)


def attended(dy: Array, q: Array, k: Array, v: Array, causal: bool, y: Array) -> Any:
    logs = reference_of("attention")(q, k, v, causal, log_sums=True)[1]
    assert np.isfinite(logs * LOG2_E).all()
    return of("attention")(dy, q, k, v, y, logs, causal)


GRADIENTS = (
    Gradient("softmax", normals((3, 7)), lambda dy, x, y: of("softmax")(dy, y)),
    Gradient(
        "layer_norm",
        normals((3, 7), (7,), (7,)),
        lambda dy, x, w, b, y: of("layer_norm")(dy, x, w),
        (0, 1, 2),
    ),
    Gradient(
        "rms_norm", normals((3, 7), (7,)), lambda dy, x, w, y: of("rms_norm")(dy, x, w), (0, 1)
    ),
    Gradient(
        "cross_entropy",
        lambda random: (random.standard_normal((4, 6)), np.array([0, -100, 5, 2])),
        lambda dy, x, t, y: of("cross_entropy")(dy, x, t, y),
    ),
    Gradient("log_softmax", normals((3, 7)), lambda dy, x, y: of("log_softmax")(dy, y)),
    *(
        Gradient(
            "activate",
            lambda random, name=name: (random.standard_normal((3, 7)), name),
            lambda dy, x, name, y: of("activate")(dy, x, name),
        )
        for name in ACTIVATIONS
    ),
    Gradient("swiglu", normals((3, 7), (3, 7)), lambda dy, *a: of("swiglu")(dy, *a[:2]), (0, 1)),
    Gradient("geglu", normals((3, 7), (3, 7)), lambda dy, *a: of("geglu")(dy, *a[:2]), (0, 1)),
    Gradient("mse_loss", normals((3, 7), (3, 7)), lambda dy, x, t, y: of("mse_loss")(dy, x, t)),
    Gradient(
        "smooth_l1_loss",
        normals((3, 7), (3, 7)),
        lambda dy, x, t, y: of("smooth_l1_loss")(dy, x, t),
    ),
    Gradient(
        "binary_cross_entropy",
        lambda random: (random.standard_normal((3, 7)), random.random((3, 7))),
        lambda dy, x, t, y: of("binary_cross_entropy")(dy, x, t),
    ),
    Gradient("l1_loss", normals((3, 7), (3, 7)), lambda dy, x, t, y: of("l1_loss")(dy, x, t)),
    Gradient(
        "huber_loss",
        lambda random: (random.standard_normal((3, 7)), random.standard_normal((3, 7)), 0.7),
        lambda dy, x, t, delta, y: of("huber_loss")(dy, x, t, delta),
    ),
    Gradient(
        "bce_loss",
        lambda random: (random.uniform(0.1, 0.9, (3, 7)), random.random((3, 7))),
        lambda dy, x, t, y: of("bce_loss")(dy, x, t),
    ),
    Gradient(
        "kl_div",
        lambda random: (random.standard_normal((3, 7)), random.random((3, 7))),
        lambda dy, x, t, y: of("kl_div")(dy, x, t),
    ),
    Gradient(
        "nll_loss",
        lambda random: (
            random.standard_normal((4, 6)),
            np.array([0, -100, 5, 2]),
            random.random(6),
        ),
        lambda dy, x, t, w, y: of("nll_loss")(dy, t, 6, w),
    ),
    Gradient(
        "rope",
        normals((2, 5, 3, 8), (5, 4), (5, 4)),
        lambda dy, x, cos, sin, y: reference_of("rope")(dy, cos, sin, inverse=True),
    ),
    Gradient(
        "embedding",
        lambda random: (np.array([[0, 2], [2, 1]]), random.standard_normal((3, 5))),
        lambda dy, indices, w, y: of("embedding")(dy, indices, 3),
        (1,),
    ),
    Gradient(
        "cumsum",
        normals((3, 7)),
        lambda dy, x, y: reference_of("cumsum")(dy, reverse=True),
    ),
    Gradient("cumprod", normals((3, 7)), lambda dy, x, y: of("cumprod")(dy, x, y)),
    Gradient("logcumsumexp", normals((3, 7)), lambda dy, x, y: of("logcumsumexp")(dy, x, y)),
    Gradient(
        "cummax",
        normals((3, 7)),
        lambda dy, x, y: of("cummax")(dy, reference_of("cummax")(x)[1]),
    ),
    Gradient(
        "cummin",
        normals((3, 7)),
        lambda dy, x, y: of("cummax")(dy, reference_of("cummin")(x)[1]),
    ),
    Gradient(
        "embedding_bag",
        lambda random: (
            np.array([0, 2, 2, 1]),
            np.array([0, 3, 3, 4]),
            random.standard_normal((3, 5)),
            "mean",
        ),
        lambda dy, i, s, w, mode, y: of("embedding_bag")(dy, i, s, 3, mode),
        (2,),
    ),
    Gradient(
        "linear_cross_entropy",
        lambda random: (*normals((4, 3), (6, 3))(random), np.array([0, -100, 5, 2])),
        lambda dy, x, w, t, y: of("linear_cross_entropy")(dy, x, w, t, y),
        (0, 1),
    ),
    Gradient(
        "lstm_cell",
        normals((3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,)),
        lambda dy, *a: of("lstm_cell")(dy, np.zeros((3, 4)), *a[:6]),
        (0, 1, 2, 3, 4, 5),
    ),
    Gradient(
        "gru_cell",
        normals((3, 2), (3, 4), (12, 2), (12, 4), (12,), (12,)),
        lambda dy, *a: of("gru_cell")(dy, *a[:4], reference_of("gru_cell")(*a[:6], gates=True)[1]),
        (0, 1, 2, 3, 4, 5),
    ),
    Gradient(
        "bilinear",
        normals((7, 3), (7, 4), (5, 3, 4)),
        lambda dy, x1, x2, w, y: of("bilinear")(dy, x1, x2, w),
        (0, 1, 2),
    ),
    Gradient(
        "resize_bilinear",
        lambda random: (random.standard_normal((1, 6, 5, 2)), (4, 9)),
        lambda dy, x, size, y: of("resize_bilinear")(dy, (6, 5)),
    ),
    Gradient(
        "batch_norm",
        normals((3, 4, 5), (4,), (4,)),
        lambda dy, x, w, b, y: of("batch_norm")(dy, x, w, *reference_of("batch_norm")(x, w, b)[1:]),
        (0, 1, 2),
    ),
    Gradient(
        "group_norm",
        lambda random: (
            random.standard_normal((3, 4, 5)),
            2,
            *normals((4,), (4,))(random),
        ),
        lambda dy, x, g, w, b, y: of("group_norm")(
            dy, x, g, w, *reference_of("group_norm")(x, g, w, b)[1:]
        ),
        (0, 2, 3),
    ),
    Gradient(
        "avg_pool2d",
        lambda random: (random.standard_normal((1, 6, 5, 2)), 3, 2, 1),
        lambda dy, x, *windows: of("avg_pool2d")(dy, (6, 5), *windows[:3]),
    ),
    Gradient(
        "max_pool2d",
        lambda random: (random.standard_normal((1, 6, 5, 2)), 3, 2, 1, True),
        lambda dy, x, *windows: of("max_pool2d")(
            dy, reference_of("max_pool2d")(x, *windows[:4])[1], (6, 5), *windows[:3]
        ),
    ),
    Gradient(
        "adaptive_avg_pool2d",
        lambda random: (random.standard_normal((1, 6, 5, 2)), (4, 3)),
        lambda dy, x, size, y: of("adaptive_avg_pool2d")(dy, (6, 5)),
    ),
    Gradient(
        "adaptive_max_pool2d",
        lambda random: (random.standard_normal((1, 6, 5, 2)), (4, 3), True),
        lambda dy, x, size, indices, y: of("adaptive_max_pool2d")(
            dy, reference_of("adaptive_max_pool2d")(x, size, True)[1], (6, 5)
        ),
    ),
    Gradient(
        "attention",
        lambda random: (*normals((1, 4, 5, 3), (1, 2, 6, 3), (1, 2, 6, 3))(random), True),
        attended,
        (0, 1, 2),
    ),
    Gradient(
        "attention",
        lambda random: (
            *normals((1, 4, 5, 3), (1, 2, 6, 3), (1, 2, 6, 3))(random),
            *(True, None, False, 3),
            *normals((1, 1, 5, 6), (4,))(random),
        ),
        lambda dy, q, k, v, causal, scale, sums, window, bias, slopes, y: of("attention")(
            dy, q, k, v, y, None, causal, scale, window, bias, slopes, True
        ),
        (0, 1, 2, 7, 8),
    ),
    Gradient(
        "varlen_attention",
        lambda random: (
            *normals((9, 4, 3), (11, 2, 3), (11, 2, 3))(random),
            *(np.array([0, 5, 5, 9]), np.array([0, 4, 6, 11]), 5, True),
        ),
        lambda dy, q, k, v, starts, key_starts, longest, causal, y: of("varlen_attention")(
            dy, q, k, v, y, None, starts, key_starts, longest, 5, causal
        ),
        (0, 1, 2),
    ),
    Gradient(
        "sddmm",
        lambda random: (
            *normals((32, 5), (5, 48))(random),
            *(np.array([1, 0, 1]), np.array([0, 2, 0]), 16),
        ),
        lambda dy, a, b, rows, columns, size, y: of("sddmm")(dy, a, b, rows, columns, size),
        (0, 1),
    ),
    Gradient(
        "spmm",
        lambda random: (
            random.standard_normal((3, 16, 16)),
            *(np.array([0, 2, 2, 3]), np.array([1, 0, 1])),
            random.standard_normal((48, 5)),
        ),
        lambda dy, values, starts, columns, b, y: of("spmm")(dy, values, starts, columns, b),
        (0, 3),
    ),
    Gradient(
        "dropout",
        lambda random: (random.standard_normal((3, 7)), 0.3, 7),
        lambda dy, x, p, seed, y: reference_of("dropout")(dy, p, seed),
    ),
)


def loss(gradient: Gradient, args: tuple[Any, ...], weights: Array | float) -> float:
    return float((weights * several(reference_of(gradient.op)(*args))[0]).sum())


def moved(args: tuple[Any, ...], index: int, step: Array) -> tuple[Any, ...]:
    return (*args[:index], args[index] + step, *args[index + 1 :])


@pytest.mark.parametrize("gradient", GRADIENTS, ids=lambda gradient: gradient.op)
def test_gradients_are_slopes(gradient: Gradient) -> None:
    random = np.random.default_rng(0)
    args = gradient.arguments(random)
    result = several(reference_of(gradient.op)(*args))[0]
    weights = random.standard_normal(result.shape)
    slopes = several(gradient.backward(weights, *args, result))
    for index, slope in zip(gradient.differentiated, slopes, strict=True):
        direction = random.standard_normal(args[index].shape)
        ends = (loss(gradient, moved(args, index, s * direction), weights) for s in (STEP, -STEP))
        difference = -np.subtract(*reversed([*ends])) / (2 * STEP)
        assert np.isclose((slope * direction).sum(), difference, rtol=1e-6, atol=1e-8), index


def test_every_gradient_is_tested() -> None:
    import tile.ops

    backward = {name.removesuffix("_backward") for name in tile.ops.__all__ if "_back" in name}
    assert backward <= {gradient.op for gradient in GRADIENTS}
