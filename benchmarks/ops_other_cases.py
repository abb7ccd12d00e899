"""The problems of rows, groups, shifts, blocks and gradients of `benchmarks/ops.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ops_cases import Args, Arrays, Problem, bytes_of

Maker = Callable[[Arrays], Args]


def rows(count: int, length: int) -> Iterator[Problem]:
    """Yield activations, the logarithm of softmax and scans."""
    label, elements = f"{count}x{length}", count * length

    def one(a: Arrays) -> Args:
        return (a.normal(count, length),)

    def two(a: Arrays) -> Args:
        return (a.normal(count, length), a.normal(count, length))

    def scanned(a: Arrays) -> Args:
        return (a.normal(count, length, dtype="float32") / length + 1,)

    gelu = {"function": "gelu_erf"}
    by_torch: dict[str, tuple[Maker, float, Any, dict[str, Any]]] = {
        "activate": (one, 2, lambda t, x: t.nn.functional.gelu(x), gelu),
        "activate_backward": (two, 3, lambda t, dy, x: t.ops.aten.gelu_backward(dy, x), gelu),
        "log_softmax": (one, 2, lambda t, x: t.log_softmax(x, -1), {}),
        "log_softmax_backward": (
            two,
            3,
            lambda t, dy, y: t.ops.aten._log_softmax_backward_data(dy, y, -1, y.dtype),
            {},
        ),
        "layer_norm_backward": (
            lambda a: (*two(a), a.normal(length)),
            3,
            None,
            {},
        ),
        "cumprod": (scanned, 4, lambda t, x: t.cumprod(x, -1), {}),
        "cummax": (scanned, 8, lambda t, x: t.cummax(x, -1)[0], {}),
        "logcumsumexp": (scanned, 4, lambda t, x: t.logcumsumexp(x, -1), {}),
    }
    for op, (make, times, function, options) in by_torch.items():
        yield Problem(op, label, "GB/s", bytes_of(times * elements), make, function, options)


def groups(count: int, each: int, size: int) -> Iterator[Problem]:
    """Yield the matmul of groups of equal sizes, and the gradient of its matrices."""
    label, operations = f"{count} of {each}x{size}x{size}", 2.0 * count * each * size * size

    def of_torch(x: Any) -> Any:
        return x.view(count, each, -1)

    def last(a: Arrays) -> Any:
        steps = (a.integers(1, count, dtype="int32") + each).cumsum(0)
        return steps.int() if hasattr(steps, "int") else steps.astype("int32")

    def rows_of(a: Arrays) -> Any:
        return a.normal(count * each, size)

    yield Problem(
        "grouped_matmul",
        label,
        "TFLOP/s",
        operations,
        lambda a: (rows_of(a), a.normal(count, size, size), last(a)),
        lambda t, a, b, ends: t.bmm(of_torch(a), b).view(count * each, size),
    )
    yield Problem(
        "grouped_matmul_wgrad",
        label,
        "TFLOP/s",
        operations,
        lambda a: (rows_of(a), rows_of(a), last(a)),
        lambda t, a, dout, ends: t.bmm(of_torch(a).mT, of_torch(dout)),
    )


def shifts(batch: int, size: int, channels: int) -> Iterator[Problem]:
    """Yield the shift convolution and its gradients; PyTorch has none."""
    operations = 2.0 * batch * size * size * channels * channels

    def image(a: Arrays) -> Any:
        return a.normal(batch, size, size, channels)

    def filters(a: Arrays) -> Any:
        return a.normal(channels, channels)

    def moved(a: Arrays) -> Any:
        return [a.integers(3, channels, dtype="int32") - 1 for _ in range(2)]

    makers: dict[str, Maker] = {
        "shift_conv": lambda a: (image(a), filters(a), *moved(a)),
        "shift_conv_dgrad": lambda a: (image(a), filters(a), *moved(a)),
        "shift_conv_wgrad": lambda a: (image(a), image(a), *moved(a)),
    }
    for op, make in makers.items():
        label = f"{batch}x{size}x{size}x{channels}"
        yield Problem(op, label, "TFLOP/s", operations, make, None)


def blocks(size: int, count: int, each: int, n: int) -> Iterator[Problem]:
    """Yield matmuls with `count` rows of `each` blocks, and their gradients."""
    number = count * each
    operations, label = 2.0 * number * size * size * n, f"{number} of {size}x{size}, {n}"

    def positions(a: Arrays) -> list[Any]:
        return [a.integers(count, number, dtype="int32") for _ in range(2)]

    def starts(a: Arrays) -> Any:
        values = (a.integers(1, count + 1, dtype="int32") + each).cumsum(0) - each
        return values.int() if hasattr(values, "int") else values.astype("int32")

    def left(a: Arrays) -> Any:
        return a.normal(count * size, n)

    def values(a: Arrays) -> Any:
        return a.normal(number, size, size)

    def pair(a: Arrays) -> Any:
        return (left(a), left(a).T, *positions(a), size)

    def sparse(a: Arrays) -> Any:
        return (values(a), starts(a), positions(a)[0], left(a))

    makers: dict[str, tuple[float, Maker]] = {
        "sddmm": (1, pair),
        "sddmm_backward": (2, lambda a: (values(a), *pair(a))),
        "spmm": (1, sparse),
        "spmm_backward": (2, lambda a: (left(a), *sparse(a))),
    }
    for op, (times, make) in makers.items():
        yield Problem(op, label, "TFLOP/s", times * operations, make, None)


def scaled(size: int) -> Iterator[Problem]:
    """Yield the matmul of float8 numbers scaled by blocks, and of float16 by PyTorch."""
    steps = -(-size // 128)

    def make(a: Arrays) -> Args:
        operands = [a.normal(size, size, dtype="float8_e4m3fn") for _ in range(2)]
        scales = [a.normal(count, steps, dtype="float32") for count in (size, steps)]
        return operands[0], operands[1].T, *scales, "float16"

    halves: list[Any] = []

    def by_torch(torch: Any, a: Any, b: Any, a_scale: Any, b_scale: Any, dtype: str) -> Any:
        if not halves:
            whole = a_scale.repeat_interleave(128, 1)[:, :size]
            blocks_ = b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[:size, :size]
            halves.extend(((a.float() * whole).half(), (b.float() * blocks_).half()))
        return halves[0] @ halves[1]

    label = f"{size}x{size}x{size}"
    yield Problem("block_scaled_matmul", label, "TFLOP/s", 2.0 * size**3, make, by_torch)


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    yield from rows(4096, 8192)
    yield from groups(8, 1024, 2048)
    yield from shifts(16, 56, 256)
    yield from blocks(64, 32, 8, 512)
    yield from scaled(4096)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from rows(64, 1000)
    yield from groups(2, 40, 64)
    yield from shifts(1, 8, 16)
    yield from blocks(16, 4, 2, 64)
    yield from scaled(200)
