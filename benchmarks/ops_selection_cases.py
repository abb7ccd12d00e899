"""The problems of tables, orders, scans and quantization of `benchmarks/ops.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops_cases import Args, Arrays, Problem, bytes_of
from ops_loss_cases import Maker, Peer, by_autograd

import tile.ops


def orders(rows: int, length: int, k: int) -> Iterator[Problem]:
    """Yield sorted rows and their greatest elements."""
    label, count = f"{rows}x{length}", rows * length

    def make(a: Arrays) -> Args:
        return (a.normal(rows, length, dtype="float32"),)

    yield Problem(*("sort", label, "GB/s", 16.0 * count, make, lambda t, x: t.sort(x, stable=True)))
    yield Problem(
        *("topk", f"{k} of {label}", "GB/s", 4.0 * count),
        lambda a: (*make(a), k),
        lambda t, x, k: t.topk(x, k),
    )


def tables(rows: int, length: int, count: int, bins: int) -> Iterator[Problem]:
    """Yield rows of a table, its gradients, and counts."""
    label = f"{count} of {rows}x{length}"

    def indices(a: Arrays) -> Any:
        return a.integers(rows, count)

    bag = 32

    def starts(a: Arrays) -> Any:
        return (a.integers(1, count // bag + 1) + bag).cumsum(0) - bag

    def of_bags(t: Any, dy: Any, indices: Any, starts: Any, _: int) -> Any:
        weight = dy.new_zeros(rows, length)
        return by_autograd(
            lambda t, w: t.nn.functional.embedding_bag(indices, w, starts[:-1], mode="sum"), 1
        )(t, dy, weight)

    yield Problem(
        *("embedding", label, "GB/s", bytes_of(2 * count * length)),
        lambda a: (indices(a), a.normal(rows, length)),
        lambda t, i, w: t.nn.functional.embedding(i, w),
    )
    yield Problem(
        *("embedding_backward", label, "GB/s", bytes_of(count * length, rows * length)),
        lambda a: (a.normal(count, length), indices(a), rows),
        lambda t, dy, i, n: t.ops.aten.embedding_dense_backward(dy, i, n, -1, False),
    )
    yield Problem(
        *("embedding_bag_backward", label, "GB/s", bytes_of(count // bag * length, rows * length)),
        lambda a: (a.normal(count // bag, length), indices(a), starts(a), rows),
        None,
    )
    yield Problem(
        *("histogram", f"{bins} of {rows * length}", "GB/s", 4.0 * rows * length),
        lambda a: (a.integers(bins, rows * length, dtype="int32"), bins),
        lambda t, x, n: t.bincount(x, minlength=n),
    )


def scans(rows: int, length: int) -> Iterator[Problem]:
    """Yield running minima, and gradients of scans."""
    label, size = f"{rows}x{length}", 4.0 * rows * length

    def one(a: Arrays) -> Args:
        return (a.normal(rows, length, dtype="float32"),)

    def near(a: Arrays) -> Args:
        return (one(a)[0] / length + 1,)

    def indexed(a: Arrays) -> Args:
        return *one(a), tile.ops.cummax(*one(a))[1]

    def scanned(op: str, source: Maker) -> Maker:
        def make(a: Arrays) -> Args:
            (x,) = source(a)
            return *one(a), x, getattr(tile.ops, op)(x)

        return make

    yield Problem("cummin", label, "GB/s", 4 * size, one, lambda t, x: t.cummin(x, -1)[0])
    yield Problem(
        *("cummax_backward", label, "GB/s", 4 * size, indexed),
        lambda t, dy, index: t.zeros_like(dy).scatter_add_(-1, index, dy),
    )
    for op, source in (("cumprod", near), ("logcumsumexp", one)):
        function: Peer = (
            (lambda t, x, *_: t.cumprod(x, -1))
            if op == "cumprod"
            else (lambda t, x, *_: t.logcumsumexp(x, -1))
        )
        yield Problem(
            *(f"{op}_backward", label, "GB/s", 4 * size, scanned(op, source)),
            by_autograd(function, 1),
        )


def rowwise(rows: int, length: int) -> Iterator[Problem]:
    """Yield gated units, rotations and numbers of 8 bits."""
    label, count = f"{rows}x{length}", rows * length

    def one(a: Arrays) -> Args:
        return (a.normal(rows, length),)

    def two(a: Arrays) -> Args:
        return (*one(a), *one(a))

    gated: dict[str, Peer] = {
        "geglu": lambda t, gate, up: t.nn.functional.gelu(gate, approximate="tanh") * up,
        "swiglu": lambda t, gate, up: t.nn.functional.silu(gate) * up,
    }
    yield Problem("geglu", label, "GB/s", bytes_of(3 * count), two, gated["geglu"])
    for op, function in gated.items():
        yield Problem(
            *(f"{op}_backward", label, "GB/s", bytes_of(5 * count)),
            lambda a: (*one(a), *two(a)),
            by_autograd(function, 2),
        )
    heads, size = length // 128, 128
    yield Problem(
        *("rope", f"1x{rows}x{heads}x{size}", "GB/s", bytes_of(2 * count)),
        lambda a: (
            a.normal(1, rows, heads, size),
            *(a.normal(rows, size // 2) for _ in range(2)),
        ),
        None,
    )
    yield Problem("quantize_blocks", label, "GB/s", 3.0 * count, one, None)
    yield Problem(
        *("dequantize", label, "GB/s", 5.0 * count),
        lambda a: tile.ops.quantize(*one(a)),
        lambda t, q, scale: q * scale[:, None],
    )
    yield Problem("pack_int4", label, "GB/s", 2.5 * count, one, None)


def products(size: int, count: int, each: int) -> Iterator[Problem]:
    """Yield the matmul of scaled rows, and norms of many arrays."""

    def scaled(a: Arrays) -> Args:
        kind = {"dtype": "float8_e4m3fn"}
        (q, s), (w, t) = (tile.ops.quantize(a.normal(size, size), **kind) for _ in range(2))
        return q, w.T, s, t, "bfloat16"

    def of_torch(t: Any, a: Any, b: Any, a_scale: Any, b_scale: Any, _: str) -> Any:
        scales = {"scale_a": a_scale[:, None], "scale_b": b_scale[None, :]}
        return t._scaled_mm(a, b, **scales, out_dtype=t.bfloat16)

    label = f"{size}x{size}x{size}"
    yield Problem("scaled_matmul", label, "TFLOP/s", 2.0 * size**3, scaled, of_torch)
    yield Problem(
        *("foreach_norms", f"{count} of {each}", "GB/s", bytes_of(count * each)),
        lambda a: ([a.normal(each) for _ in range(count)],),
        lambda t, xs: t.stack(t._foreach_norm(xs)),
    )


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    yield from orders(4096, 4096, 64)
    yield from orders(1, 1_000_000, 64)
    yield from tables(50_000, 256, 65_536, 256)
    yield from scans(4096, 8192)
    yield from rowwise(4096, 8192)
    yield from products(4096, 256, 10_000)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from orders(16, 100, 5)
    yield from tables(50, 16, 64, 16)
    yield from scans(8, 100)
    yield from rowwise(8, 256)
    yield from products(64, 10, 100)
