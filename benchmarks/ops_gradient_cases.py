"""The problems of gradients of images, norms and attention of `benchmarks/ops.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops_cases import Args, Arrays, Problem, bytes_of
from ops_loss_cases import by_autograd, once

import tile.ops

NCHW = {"layout": "NCHW"}


def norms(batch: int, channels: int, size: int) -> Iterator[Problem]:
    """Yield the gradients of batch and group norm."""
    count, label = batch * channels * size * size, f"{batch}x{channels}x{size}x{size}"
    groups = channels // 8

    def image(a: Arrays) -> Any:
        return a.normal(batch, channels, size, size)

    def of_batch(a: Arrays) -> Args:
        x, weight, bias = image(a), a.normal(channels), a.normal(channels)
        return image(a), x, weight, *tile.ops.batch_norm(x, weight, bias)[1:]

    def of_groups(a: Arrays) -> Args:
        x, weight, bias = image(a), a.normal(channels), a.normal(channels)
        return image(a), x, groups, weight, *tile.ops.group_norm(x, groups, weight, bias)[1:]

    @once
    def statistics(t: Any, mean: Any, variance: Any, weight: Any) -> Any:
        return mean, (variance + 1e-5).rsqrt(), weight.float()

    def batch_of_torch(t: Any, dy: Any, x: Any, weight: Any, mean: Any, variance: Any) -> Any:
        mean, rstd, weight = statistics(t, mean, variance, weight)
        return t.ops.aten.native_batch_norm_backward(
            *(dy, x, weight, None, None, mean, rstd, True, 1e-5, [True] * 3)
        )

    def group(t: Any, x: Any, groups: int, weight: Any, *_: Any) -> Any:
        return t.nn.functional.group_norm(x, groups, weight, weight)

    work = bytes_of(5 * count)  # both passes read x and dy
    yield Problem("batch_norm_backward", label, "GB/s", work, of_batch, batch_of_torch)
    yield Problem(*("group_norm_backward", label, "GB/s", work, of_groups), by_autograd(group, 1))


def pools(batch: int, channels: int, size: int) -> Iterator[Problem]:
    """Yield gradients of pooling and resizing, and maxima of adaptive windows."""
    label, count = f"{batch}x{channels}x{size}x{size}", batch * channels * size * size

    def image(a: Arrays, side: int = size) -> Any:
        return a.normal(batch, channels, side, side)

    half, sides = size // 2, (size, size)

    def maxima(a: Arrays) -> Args:
        _, index = tile.ops.max_pool2d(image(a), 2, 2, indices=True, layout="NCHW")
        return image(a, half), index, sides, 2, 2

    def adaptive(a: Arrays) -> Args:
        _, index = tile.ops.adaptive_max_pool2d(image(a), 7, indices=True, layout="NCHW")
        return image(a, 7), index, sides

    aten = once(lambda t, dy, index: (dy.new_empty(batch, channels, *sides), index.long()))
    other = once(lambda t, dy, index: (dy.new_empty(batch, channels, *sides), index.long()))
    empty = once(lambda dy: dy.new_empty(batch, channels, *sides))

    def of_maxima(t: Any, dy: Any, index: Any, *_: Any) -> Any:
        x, index = aten(t, dy, index)
        return t.ops.aten.max_pool2d_with_indices_backward(
            *(dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, index)
        )

    def of_adaptive(t: Any, dy: Any, index: Any, _: Any) -> Any:
        x, index = other(t, dy, index)
        return t.ops.aten.adaptive_max_pool2d_backward(dy, x, index)

    small, window = bytes_of(count, batch * channels * 49), bytes_of(count, count // 4)
    yield Problem(*("max_pool2d_backward", label, "GB/s", window + count, maxima, of_maxima, NCHW))
    yield Problem(
        *("avg_pool2d_backward", label, "GB/s", window),
        lambda a: (image(a, half), sides, 2, 2),
        lambda t, dy, *_: t.ops.aten.avg_pool2d_backward(
            dy, empty(dy), [2, 2], [2, 2], [0, 0], False, True, None
        ),
        NCHW,
    )
    yield Problem(
        *("adaptive_max_pool2d", label, "GB/s", small),
        lambda a: (image(a), 7),
        lambda t, x, side: t.nn.functional.adaptive_max_pool2d(x, side),
        NCHW,
    )
    yield Problem(
        *("adaptive_max_pool2d_backward", label, "GB/s", small, adaptive, of_adaptive, NCHW)
    )
    yield Problem(
        *("adaptive_avg_pool2d_backward", label, "GB/s", small),
        lambda a: (image(a, 7), sides),
        lambda t, dy, _: t.ops.aten._adaptive_avg_pool2d_backward(dy, empty(dy)),
        NCHW,
    )
    yield Problem(
        *("resize_bilinear_backward", f"{label} by 2", "GB/s", bytes_of(count, 4 * count)),
        lambda a: (image(a, 2 * size), sides),
        lambda t, dy, _: t.ops.aten.upsample_bilinear2d_backward(
            dy, [2 * size] * 2, [batch, channels, *sides], False, None, None
        ),
        NCHW,
    )


def products(batch: int, size: int, channels: int, rows: int, form: int) -> Iterator[Problem]:
    """Yield a transposed convolution of stride 2, and the gradients of bilinear forms."""
    label = f"{batch}x{size}x{size}x{channels}"

    def planes(x: Any) -> Any:
        return x.permute(0, 3, 1, 2)

    yield Problem(
        *("conv_transpose2d", label, "TFLOP/s", 2.0 * batch * size * size * channels**2 * 9),
        lambda a: (a.normal(batch, size, size, channels), a.normal(channels, 3, 3, channels)),
        lambda t, x, w: t.nn.functional.conv_transpose2d(
            planes(x), planes(w), stride=2, padding=1
        ).permute(0, 2, 3, 1),
        {"stride": 2, "padding": 1},
    )

    def matrix(a: Arrays) -> Any:
        return a.normal(rows, form)

    def forms(a: Arrays) -> Args:
        return (*(matrix(a), matrix(a), matrix(a), a.normal(form, form, form) / form),)

    yield Problem(
        *("bilinear_backward", f"{rows} of {form}x{form}x{form}", "TFLOP/s"),
        6.0 * rows * form**3,
        forms,
        by_autograd(lambda t, x, y, w: t.nn.functional.bilinear(x, y, w), 3),
    )


def attentions(batch: int, heads: int, context: int, size: int) -> Iterator[Problem]:
    """Yield gradients of attention, and attention of sequences of different lengths."""
    label = f"{batch}x{heads}x{context}x{size}"

    def array(a: Arrays) -> Any:
        return a.normal(batch, heads, context, size)

    def tokens(a: Arrays) -> Any:
        return a.normal(batch * context, heads, size)

    def make(a: Arrays) -> Args:
        q, k, v = array(a), array(a), array(a)
        return array(a), q, k, v, *tile.ops.attention(q, k, v, log_sums=True)

    def sequences(a: Arrays) -> Args:
        starts = (a.integers(1, batch + 1, dtype="int32") + context).cumsum(0) - context
        starts = starts.int() if hasattr(starts, "int") else starts.astype("int32")
        return tokens(a), tokens(a), tokens(a), starts, starts, context

    def gradient(a: Arrays) -> Args:
        q, k, v, starts, *_ = sequences(a)
        both = tile.ops.varlen_attention(q, k, v, starts, starts, context, log_sums=True)
        return tokens(a), q, k, v, *both, starts, starts, context, context

    def of_torch(t: Any, q: Any, k: Any, v: Any, *_: Any) -> Any:
        return t.nn.functional.scaled_dot_product_attention(q, k, v)

    def of_tokens(t: Any, q: Any, k: Any, v: Any, *_: Any) -> Any:
        q, k, v = (x.view(batch, context, heads, size).transpose(1, 2) for x in (q, k, v))
        return of_torch(t, q, k, v).transpose(1, 2).reshape(batch * context, heads, size)

    work = 4.0 * batch * heads * context**2 * size
    yield Problem(
        *("attention_backward", label, "TFLOP/s", 2.5 * work, make), by_autograd(of_torch, 3)
    )
    yield Problem("varlen_attention", label, "TFLOP/s", work, sequences, of_tokens)
    yield Problem(
        *("varlen_attention_backward", label, "TFLOP/s", 2.5 * work, gradient),
        by_autograd(of_tokens, 3),
    )


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    yield from norms(32, 256, 56)
    yield from pools(32, 256, 56)
    yield from products(64, 14, 256, 4096, 128)
    for heads, size in ((32, 128), (16, 256), (32, 96)):
        yield from attentions(4, heads, 2048, size)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from norms(2, 16, 14)
    yield from pools(2, 4, 14)
    yield from products(2, 6, 16, 32, 8)
    yield from attentions(2, 2, 40, 16)
