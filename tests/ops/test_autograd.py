"""Ops are differentiable in PyTorch: their gradients are those of PyTorch's own operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import tile.ops
from tile.errors import ArgumentError

F = torch.nn.functional


@dataclass(frozen=True)
class Same:
    """One function of tensors by this library and by PyTorch, and the shapes of its arguments."""

    label: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def planes(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


ZEROS = torch.zeros(4, dtype=torch.float64)
CONVOLUTION = {"stride": (2, 1), "padding": 1, "dilation": (1, 2), "groups": 2}
CASES = (
    Same(
        "conv2d NCHW",
        lambda x, w, b: tile.ops.conv2d(x, w, b, layout="NCHW", **CONVOLUTION),
        lambda x, w, b: F.conv2d(x, w, b, **CONVOLUTION),
        ((2, 4, 7, 8), (6, 2, 3, 3), (6,)),
    ),
    Same(
        "conv2d NHWC",
        lambda x, w, b: tile.ops.conv2d(x, w, b, "relu", padding=1),
        lambda x, w, b: last(F.relu(F.conv2d(planes(x), planes(w), b, padding=1))),
        ((2, 5, 4, 3), (5, 3, 3, 3), (5,)),
    ),
    Same(
        "conv2d depthwise",
        lambda x, w: tile.ops.conv2d(x, w, stride=2, groups=3, layout="NCHW"),
        lambda x, w: F.conv2d(x, w, stride=2, groups=3),
        ((2, 3, 6, 5), (3, 1, 2, 3)),
    ),
    Same(
        "conv_transpose2d",
        lambda x, w, b: tile.ops.conv_transpose2d(
            x, w, b, output_padding=(1, 0), layout="NCHW", **CONVOLUTION
        ),
        lambda x, w, b: F.conv_transpose2d(x, w, b, output_padding=(1, 0), **CONVOLUTION),
        ((2, 4, 4, 5), (4, 3, 3, 2), (6,)),
    ),
)


CASES += (
    Same(
        "batch_norm",
        lambda x, w, b: tile.ops.batch_norm(x, w, b)[0],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        ((3, 4, 5, 2), (4,), (4,)),
    ),
    Same(
        "batch_norm by constants",
        lambda x, w, b: tile.ops.batch_norm(x, w, b, ZEROS, ZEROS + 2)[0],
        lambda x, w, b: F.batch_norm(x, ZEROS, ZEROS + 2, w, b),
        ((3, 4, 5, 2), (4,), (4,)),
    ),
    Same(
        "group_norm",
        lambda x, w, b: tile.ops.group_norm(x, 2, w, b)[0],
        lambda x, w, b: F.group_norm(x, 2, w, b),
        ((3, 4, 5, 2), (4,), (4,)),
    ),
)


IMAGES = ((2, 3, 7, 6),)
CASES += (
    Same(
        "max_pool2d",
        lambda x: tile.ops.max_pool2d(x, 3, 2, 1, layout="NCHW"),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        IMAGES,
    ),
    Same(
        "avg_pool2d",
        lambda x: tile.ops.avg_pool2d(x, 3, 2, 1, False, layout="NCHW"),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        IMAGES,
    ),
    Same(
        "adaptive_max_pool2d",
        lambda x: tile.ops.adaptive_max_pool2d(x, (3, 4), True, layout="NCHW")[0],
        lambda x: F.adaptive_max_pool2d(x, (3, 4)),
        IMAGES,
    ),
    Same(
        "adaptive_avg_pool2d",
        lambda x: tile.ops.adaptive_avg_pool2d(x, (3, 4), layout="NCHW"),
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        IMAGES,
    ),
)


def tensors(shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in shapes
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_gradients_are_those_of_torch(case: Same) -> None:
    inputs = tensors(case.shapes)
    expected = case.theirs(*inputs)
    actual = case.ours(*inputs)
    torch.testing.assert_close(actual, expected)
    weights = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, inputs, weights)
    torch.testing.assert_close(torch.autograd.grad(actual, inputs, weights), wanted)


def test_only_gradients_that_are_needed_are_computed() -> None:
    x, w, _ = tensors(((2, 5, 4, 3), (5, 3, 3, 3), (5,)))
    y = tile.ops.conv2d(x.detach(), w)
    (gradient,) = torch.autograd.grad(y.sum(), [w])  # the gradient of a sum has strides of 0
    expected = torch.autograd.grad(F.conv2d(planes(x), planes(w)).sum(), [w])[0]
    torch.testing.assert_close(gradient, expected)


def test_calls_that_are_not_recorded() -> None:
    x, w = tensors(((1, 4, 4, 3), (5, 3, 3, 3)))
    assert not tile.ops.conv2d(x.detach(), w.detach()).requires_grad
    with torch.no_grad():
        assert not tile.ops.conv2d(x, w).requires_grad


def test_errors() -> None:
    x, w = tensors(((1, 4, 4, 3), (5, 3, 3, 3)))
    out = torch.zeros(1, 2, 2, 5, dtype=torch.float64)
    with pytest.raises(ArgumentError, match="conv2d: `out` is given, and an argument requires"):
        tile.ops.conv2d(x, w, out=out)
    assert not out.any()
    with pytest.raises(ArgumentError, match="conv2d: `activation` = 'gelu' has no gradient"):
        tile.ops.conv2d(x, w, activation="gelu")
