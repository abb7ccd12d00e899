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
from tile.ops.core.autograd import is_differentiable

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


SHIFTS = torch.tensor([0, 1, -2, 4], dtype=torch.int32), torch.tensor([1, 0, 3, 0]).int()


def moved(x: Any) -> Any:
    """Return the channels of an image, each read at its shifted pixels, by a padded copy."""
    height, width = x.shape[1:3]
    padded = F.pad(x, (0, 0, width, width, height, height))
    parts = [
        padded[:, height + h : 2 * height + h, width + w : 2 * width + w, c]
        for c, (h, w) in enumerate(zip(*map(torch.Tensor.tolist, SHIFTS), strict=True))
    ]
    return torch.stack(parts, -1)


CASES += (
    Same(
        "shift_conv",
        lambda x, w: tile.ops.shift_conv(x, w, *SHIFTS),
        lambda x, w: moved(x) @ w.T,
        ((2, 4, 5, 4), (3, 4)),
    ),
)
ROWS = ((3, 7),)
PAIR = ((3, 7), (3, 7))
UNIT = torch.tensor([1.0, 1, 0, 1, 1, 0, 1], dtype=torch.float64)
TARGET = torch.tensor([0, -100, 5])
ANGLES = torch.linspace(0, 1, 12, dtype=torch.float64).reshape(3, 4)
CASES += (
    Same("softmax", tile.ops.softmax, lambda x: F.softmax(x, -1), ROWS),
    Same("log_softmax", tile.ops.log_softmax, lambda x: F.log_softmax(x, -1), ROWS),
    Same("activate", lambda x: tile.ops.activate(x.mT.contiguous(), "tanh").mT, torch.tanh, ROWS),
    Same("activate gelu", lambda x: tile.ops.activate(x, "gelu_erf"), F.gelu, ROWS),
    Same(
        "layer_norm",
        tile.ops.layer_norm,
        lambda x, w, b: F.layer_norm(x, (7,), w, b),
        ((3, 7), (7,), (7,)),
    ),
    Same(
        "rms_norm",
        lambda x, w: tile.ops.rms_norm(x, w, eps=0.1),
        lambda x, w: F.rms_norm(x, (7,), w, 0.1),
        ((3, 7), (7,)),
    ),
    Same(
        "cross_entropy",
        lambda x: tile.ops.cross_entropy(x, TARGET),
        lambda x: F.cross_entropy(x, TARGET, reduction="none"),
        ROWS,
    ),
    Same(
        "nll_loss",
        lambda x: tile.ops.nll_loss(x, TARGET, x.detach()[0]),
        lambda x: F.nll_loss(x, TARGET, x.detach()[0], reduction="none"),
        ROWS,
    ),
    Same("swiglu", tile.ops.swiglu, lambda gate, up: F.silu(gate) * up, PAIR),
    Same("geglu", tile.ops.geglu, lambda g, up: F.gelu(g, approximate="tanh") * up, PAIR),
    Same(
        "rope",
        lambda x: tile.ops.rope(x, ANGLES.cos(), ANGLES.sin()),
        lambda x: torch.view_as_real(
            torch.complex(*x.unflatten(-1, (2, 4)).unbind(-2)) * torch.exp(1j * ANGLES[:, None])
        ).mT.flatten(-2),
        ((2, 3, 2, 8),),
    ),
    Same("cumsum", tile.ops.cumsum, lambda x: x.cumsum(-1), ROWS),
    Same("cumprod", tile.ops.cumprod, lambda x: x.cumprod(-1), ROWS),
    Same(
        "cumprod of a zero",
        lambda x: tile.ops.cumprod(x * UNIT),
        lambda x: (x * UNIT).cumprod(-1),
        ROWS,
    ),
    Same("cummax", lambda x: tile.ops.cummax(x)[0], lambda x: x.cummax(-1).values, ROWS),
    Same("cummin", lambda x: tile.ops.cummin(x)[0], lambda x: x.cummin(-1).values, ROWS),
    Same("logcumsumexp", tile.ops.logcumsumexp, lambda x: x.logcumsumexp(-1), ROWS),
    Same(
        "dropout",
        lambda x: tile.ops.dropout(x, 0.5, 7),
        lambda x: x * tile.ops.dropout(torch.ones_like(x), 0.5, 7),
        ROWS,
    ),
    Same(
        "embedding",
        lambda w: tile.ops.embedding(torch.tensor([0, 2, 2]), w),
        lambda w: F.embedding(torch.tensor([0, 2, 2]), w),
        ROWS,
    ),
    Same(
        "matmul gelu",
        lambda a, b, c: tile.ops.matmul(a, b, c, "gelu"),
        lambda a, b, c: F.gelu(a @ b + c, approximate="tanh"),
        ((5, 4), (4, 6), (6,)),
    ),
    Same(
        "conv2d silu NCHW",
        lambda x, w, b: tile.ops.conv2d(x, w, b, "silu", padding=1, layout="NCHW"),
        lambda x, w, b: F.silu(F.conv2d(x, w, b, padding=1)),
        ((2, 3, 4, 5), (4, 3, 3, 3), (4,)),
    ),
    Same(
        "matmul",
        lambda a, b, c: tile.ops.matmul(a, b, c, "relu"),
        lambda a, b, c: F.relu(a @ b + c),
        ((2, 3, 7), (7, 4), (4,)),
    ),
    Same(
        "matmul sigmoid",
        lambda a, b: tile.ops.matmul(a, b, activation="sigmoid"),
        lambda a, b: (a @ b).sigmoid(),
        ((5, 4), (4, 6)),
    ),
    Same("matmul shared", tile.ops.matmul, torch.matmul, ((3, 7), (2, 7, 4))),
    Same(
        "grouped_matmul",
        lambda a, b: tile.ops.grouped_matmul(a, b, torch.tensor([2, 2, 9], dtype=torch.int32)),
        lambda a, b: torch.cat([a[:2] @ b[0], a[2:] @ b[2]]) + 0 * b[1].sum(),
        ((9, 7), (3, 7, 4)),
    ),
)
CASES += (
    Same("bilinear", tile.ops.bilinear, F.bilinear, ((2, 3, 5), (2, 3, 4), (6, 5, 4), (6,))),
    Same(
        "resize_bilinear",
        lambda x: tile.ops.resize_bilinear(x, (4, 11), layout="NCHW"),
        lambda x: F.interpolate(x, (4, 11), mode="bilinear"),
        IMAGES,
    ),
    Same(
        "resize_bilinear aligned",
        lambda x: tile.ops.resize_bilinear(x, (13, 3), True, layout="NCHW"),
        lambda x: F.interpolate(x, (13, 3), mode="bilinear", align_corners=True),
        IMAGES,
    ),
)
CASES += (
    Same(
        "linear_cross_entropy",
        lambda x, w: tile.ops.linear_cross_entropy(x, w, TARGET)[0],
        lambda x, w: F.cross_entropy(x @ w.T, TARGET, reduction="none"),
        ((3, 7), (9, 7)),
    ),
)
CASES += (
    Same(
        "lstm_cell",
        lambda *arrays: torch.cat(tile.ops.lstm_cell(*arrays)),
        lambda *arrays: torch.cat(
            torch.lstm_cell(arrays[0], arrays[1:3], *arrays[3:], torch.zeros_like(arrays[-1]))
        ),
        ((3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,)),
    ),
)
CASES += (
    Same(
        "gru_cell",
        tile.ops.gru_cell,
        torch.gru_cell,
        ((3, 2), (3, 4), (12, 2), (12, 4), (12,), (12,)),
    ),
)
BAGS = torch.tensor([0, 2, 2, 1]), torch.tensor([0, 3, 3, 4])
CASES += (
    Same(
        "embedding_bag sum",
        lambda w, s: tile.ops.embedding_bag(*BAGS, w, "sum", s),
        lambda w, s: F.embedding_bag(
            BAGS[0], w, BAGS[1], mode="sum", per_sample_weights=s, include_last_offset=True
        ),
        ((3, 5), (4,)),
    ),
    Same(
        "embedding_bag mean",
        lambda w: tile.ops.embedding_bag(*BAGS, w, "mean"),
        lambda w: F.embedding_bag(BAGS[0], w, BAGS[1], mode="mean", include_last_offset=True),
        ((3, 5),),
    ),
)
SUMMED = {  # losses of differences and of probabilities, by PyTorch's name
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy": F.binary_cross_entropy_with_logits,
}
CASES += tuple(
    Same(
        name,
        lambda x, name=name: getattr(tile.ops, name)(x, x.detach().flip(0).sigmoid()),
        lambda x, theirs=theirs: theirs(x, x.detach().flip(0).sigmoid()),
        ROWS,
    )
    for name, theirs in SUMMED.items()
)
CASES += (
    Same(
        "bce_loss",
        lambda x: tile.ops.bce_loss(x.sigmoid(), x.detach().flip(0).sigmoid()),
        lambda x: F.binary_cross_entropy(x.sigmoid(), x.detach().flip(0).sigmoid()),
        ROWS,
    ),
    Same(
        "kl_div",
        lambda x: tile.ops.kl_div(x, x.detach().flip(0).sigmoid()),
        lambda x: F.kl_div(x, x.detach().flip(0).sigmoid(), reduction="none").mean(),
        ROWS,
    ),
)


BLOCKS = torch.tensor([1, 0, 1], dtype=torch.int32), torch.tensor([0, 2, 2], dtype=torch.int32)
ROW_STARTS = torch.tensor([0, 2, 2, 3], dtype=torch.int32)


def dense(values: Any, rows: Any, columns: Any) -> Any:
    """Return the dense matrix of 3 x 3 blocks of 16."""
    s = torch.zeros(3, 3, 16, 16, dtype=values.dtype)
    return s.index_put((rows.long(), columns.long()), values).transpose(1, 2).reshape(48, 48)


CASES += (
    Same(
        "sddmm",
        lambda a, b: tile.ops.sddmm(a, b, *BLOCKS, 16),
        lambda a, b: (a @ b).view(3, 16, 3, 16).transpose(1, 2)[BLOCKS[0].long(), BLOCKS[1].long()],
        ((48, 5), (5, 48)),
    ),
    Same(
        "spmm",
        lambda values, b: tile.ops.spmm(values, ROW_STARTS, BLOCKS[0], b),
        lambda values, b: dense(values, torch.tensor([0, 0, 2]), BLOCKS[0]) @ b,
        ((3, 16, 16), (48, 5)),
    ),
)
HEADS = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
DISTANCES = (torch.arange(7) - torch.arange(5)[:, None] - 2).abs()
STARTS = torch.tensor([0, 5, 9], dtype=torch.int32)


def attended(q: Any, k: Any, v: Any, mask: Any, enable_gqa: bool = True) -> Any:
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=enable_gqa)


def within(limit: int, window: int) -> Any:
    """Return the mask of keys at most `limit` ahead and less than `window` away."""
    ahead = torch.arange(7) - torch.arange(5)[:, None] - 2
    return (ahead <= limit) & (ahead.abs() < window)


CASES += (
    Same(
        "attention causal",
        lambda q, k, v: tile.ops.attention(q, k, v, True),
        lambda q, k, v: attended(q, k, v, within(0, 9)),
        HEADS,
    ),
    Same(
        "attention in a window",
        lambda q, k, v: tile.ops.attention(q.mT.contiguous().mT.contiguous(), k, v, window=3),
        lambda q, k, v: attended(q, k, v, within(9, 3)),
        HEADS,
    ),
    Same(
        "attention with slopes",
        lambda q, k, v, s: tile.ops.attention(q, k, v, slopes=s.float()),
        lambda q, k, v, s: attended(q, k, v, -s.float().double()[:, None, None] * DISTANCES),
        (*HEADS, (4,)),
    ),
    Same(
        "attention with a bias",
        lambda q, k, v, b: tile.ops.attention(q, k, v, True, bias=b),
        lambda q, k, v, b: attended(q, k, v, b.where(within(0, 9), -torch.inf)),
        (*HEADS, (1, 4, 5, 7)),
    ),
    Same(
        "attention with a bias of keys",
        lambda q, k, v, b: tile.ops.attention(q, k, v, bias=b),
        lambda q, k, v, b: attended(q, k, v, b.expand(2, 4, 5, 7)),
        (*HEADS, (2, 1, 1, 7)),
    ),
    Same(
        "varlen_attention",
        lambda q, k, v: tile.ops.varlen_attention(q, k, v, STARTS, STARTS, 5, True),
        lambda q, k, v: torch.cat(
            [
                F.scaled_dot_product_attention(
                    *(x[part].transpose(0, 1) for x in (q, k, v)), is_causal=True
                ).transpose(0, 1)
                for part in (slice(0, 5), slice(5, 9))
            ]
        ),
        ((9, 2, 8), (9, 2, 8), (9, 2, 8)),
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


def test_every_differentiable_op_is_compared() -> None:
    functions = {name for name in tile.ops.__all__ if is_differentiable(getattr(tile.ops, name))}
    assert functions == {case.label.partition(" ")[0] for case in CASES}


def test_errors() -> None:
    x, w = tensors(((1, 4, 4, 3), (5, 3, 3, 3)))
    out = torch.zeros(1, 2, 2, 5, dtype=torch.float64)
    with pytest.raises(ArgumentError, match="conv2d: `out` is given, and an argument requires"):
        tile.ops.conv2d(x, w, out=out)
    assert not out.any()
    table = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ArgumentError, match="embedding_bag: `mode` = 'max' has no gradient"):
        tile.ops.embedding_bag(torch.tensor([0, 2]), torch.tensor([0, 2]), table, mode="max")


def test_attention_returns_as_many_results_as_without_gradients() -> None:
    q, k, v = tensors(((1, 2, 5, 8),) * 3)
    assert isinstance(tile.ops.attention(q, k, v), torch.Tensor)
    out, sums = tile.ops.attention(q, k, v, log_sums=True)
    assert out.requires_grad and not sums.requires_grad


def test_linear_cross_entropy_stores_logits_for_its_gradients() -> None:
    """A caller that did not ask for them gets as many results as without gradients."""
    x, weight = tensors(((3, 7), (9, 7)))
    loss, sums = tile.ops.linear_cross_entropy(x, weight, TARGET)
    assert loss.requires_grad and not sums.requires_grad
    _, _, logits = tile.ops.linear_cross_entropy(x, weight, TARGET, logits=True)
    assert logits.shape == (3, 9) and not logits.requires_grad
    stored = loss.grad_fn.saved_tensors[-1]
    torch.testing.assert_close(stored, logits)


def test_layer_norm_stores_statistics_for_its_gradients() -> None:
    x, weight, bias = tensors(((3, 7), (7,), (7,)))
    y = tile.ops.layer_norm(x, weight, bias)
    result, *statistics = tile.ops.layer_norm(x, weight, bias, statistics=True)
    assert result.requires_grad and not any(each.requires_grad for each in statistics)
    torch.testing.assert_close(y.grad_fn.saved_tensors[-2:], tuple(statistics))
    empty = torch.ones(4, 0, requires_grad=True)
    tile.ops.layer_norm(empty, torch.ones(0), torch.ones(0)).sum().backward()
    assert empty.grad.shape == (4, 0)


@pytest.mark.parametrize(("activation", "count"), [(None, 2), ("gelu", 2), ("relu", 3)])
def test_results_are_stored_for_gradients_that_read_them(
    activation: str | None, count: int
) -> None:
    a, b = tensors(((3, 4), (4, 5)))
    assert len(tile.ops.matmul(a, b, activation=activation).grad_fn.saved_tensors) == count


def test_results_of_which_one_is_used() -> None:
    arrays = tensors(((3, 2), (3, 4), (3, 4), (16, 2), (16, 4), (16,)))
    hidden, cell = tile.ops.lstm_cell(*arrays)
    expected = torch.lstm_cell(arrays[0], arrays[1:3], *arrays[3:], torch.zeros_like(arrays[-1]))
    for actual, theirs in zip((hidden, cell), expected, strict=True):
        gradients = torch.autograd.grad(actual.sum(), arrays, retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad(theirs.sum(), arrays, retain_graph=True)
        torch.testing.assert_close(gradients, wanted)
