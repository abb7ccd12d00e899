"""The problems of images, channels and lists of `benchmarks/ops.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ops_cases import Args, Arrays, Problem, bytes_of

NCHW = {"layout": "NCHW"}


def planes(x: Any) -> Any:
    """Return batch x height x width x channels as PyTorch's functions take it, a view."""
    return x.permute(0, 3, 1, 2)


def convolutions(batch: int, size: int, channels: int, groups: int = 1) -> Iterator[Problem]:
    """Yield a convolution of 3 x 3 with channels last, and its gradients."""
    depth = channels // groups
    options = {"stride": 1, "padding": 1, "groups": groups}
    label = f"{batch}x{size}x{size}x{channels}{f' groups {groups}' if groups > 1 else ''}"
    operations = 2.0 * batch * size * size * channels * depth * 9

    def image(a: Arrays) -> Any:
        return a.normal(batch, size, size, channels)

    def filters(a: Arrays) -> Any:
        return a.normal(channels, 3, 3, depth)

    def backward(torch: Any, dy: Any, x: Any, w: Any, mask: list[bool]) -> Any:
        sides = [1, 1], [1, 1], [1, 1]
        results = torch.ops.aten.convolution_backward(
            *(planes(dy), planes(x), planes(w), None, *sides, False, [0, 0], groups, mask)
        )
        return next(result for result in results if result is not None).permute(0, 2, 3, 1)

    yield Problem(
        "conv2d",
        label,
        "TFLOP/s",
        operations,
        lambda a: (image(a), filters(a)),
        lambda t, x, w: t.nn.functional.conv2d(
            planes(x), planes(w), padding=1, groups=groups
        ).permute(0, 2, 3, 1),
        options,
    )
    yield Problem(
        "conv2d_dgrad",
        label,
        "TFLOP/s",
        operations,
        lambda a: (image(a), filters(a), (size, size)),
        lambda t, dy, w, _: backward(t, dy, dy, w, [True, False, False]),
        options,
    )
    yield Problem(
        "conv2d_wgrad",
        label,
        "TFLOP/s",
        operations,
        lambda a: (image(a), image(a), (3, 3)),
        lambda t, dy, x, _: backward(
            t, dy, x, x.new_empty(channels, 3, 3, depth), [False, True, False]
        ),
        options,
    )


def normalizations(batch: int, channels: int, size: int) -> Iterator[Problem]:
    """Yield normalizations and pooling of planes."""
    count = batch * channels * size * size
    label = f"{batch}x{channels}x{size}x{size}"

    def image(a: Arrays) -> Any:
        return a.normal(batch, channels, size, size)

    def weighted(*more: Any) -> Callable[[Arrays], Args]:
        return lambda a: (image(a), *more, a.normal(channels), a.normal(channels))

    yield Problem(
        "batch_norm",
        label,
        "GB/s",
        bytes_of(3 * count),
        weighted(),
        lambda t, x, w, b: t.nn.functional.batch_norm(
            x, None, None, w.float(), b.float(), training=True
        ),
    )
    yield Problem(
        "group_norm",
        label,
        "GB/s",
        bytes_of(3 * count),
        weighted(channels // 8),
        lambda t, x, g, w, b: t.nn.functional.group_norm(x, g, w, b),
    )
    pooled = batch * channels * (size // 2) ** 2
    for op in ("max_pool2d", "avg_pool2d"):
        yield Problem(
            op,
            label,
            "GB/s",
            bytes_of(count, pooled),
            lambda a: (image(a), 2, 2),
            lambda t, x, window, stride, op=op: getattr(t.nn.functional, op)(x, window, stride),
            NCHW,
        )
    yield Problem(
        "adaptive_avg_pool2d",
        label,
        "GB/s",
        bytes_of(count),
        lambda a: (image(a), 7),
        lambda t, x, sides: t.nn.functional.adaptive_avg_pool2d(x, sides),
        NCHW,
    )
    yield Problem(
        "resize_bilinear",
        f"{label} by 2",
        "GB/s",
        bytes_of(count, 4 * count),
        lambda a: (image(a), (2 * size, 2 * size)),
        lambda t, x, sides: t.nn.functional.interpolate(x, sides, mode="bilinear"),
        NCHW,
    )


def bags(rows: int, length: int, bag: int) -> Iterator[Problem]:
    """Yield sums of rows of a table."""

    def make(a: Arrays) -> Args:
        indices = a.integers(rows, rows)
        starts = a.integers(1, rows // bag + 1)
        starts[:] = bag
        starts = starts.cumsum(0) - bag
        return indices, starts, a.normal(rows, length)

    yield Problem(
        "embedding_bag",
        f"{rows // bag}x{bag}x{length}",
        "GB/s",
        bytes_of(rows * length, rows // bag * length),
        make,
        lambda t, i, s, w: t.nn.functional.embedding_bag(i, w, s[:-1], mode="sum"),
    )


def forms(rows: int, size: int) -> Iterator[Problem]:
    """Yield bilinear forms."""
    yield Problem(
        "bilinear",
        f"{rows} of {size}x{size}x{size}",
        "TFLOP/s",
        2.0 * rows * size**3,
        lambda a: (a.normal(rows, size), a.normal(rows, size), a.normal(size, size, size)),
        lambda t, x1, x2, w: t.nn.functional.bilinear(x1, x2, w),
    )


def lists(count: int, size: int) -> Iterator[Problem]:
    """Yield a sum of lists of arrays."""
    yield Problem(
        "foreach_apply",
        f"add {count} of {size}",
        "GB/s",
        bytes_of(3 * count * size),
        lambda a: (
            "add",
            [a.normal(size) for _ in range(count)],
            [a.normal(size) for _ in range(count)],
        ),
        lambda t, _, xs, ys: tuple(t._foreach_add(xs, ys)),
    )


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    for size, channels in ((56, 64), (14, 256)):
        yield from convolutions(64, size, channels)
    yield from convolutions(32, 56, 256, groups=256)
    yield from normalizations(32, 256, 56)
    yield from bags(65536, 256, 32)
    yield from forms(4096, 128)
    yield from lists(256, 10_000)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from convolutions(2, 8, 16)
    yield from convolutions(2, 8, 16, groups=16)
    yield from normalizations(2, 16, 14)
    yield from bags(256, 64, 8)
    yield from forms(64, 8)
    yield from lists(20, 100)
