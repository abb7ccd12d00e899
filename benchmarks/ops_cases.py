"""The problems of `benchmarks/ops.py`: arguments, PyTorch's counterpart, and amounts of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Arrays(Protocol):
    """Makes random arrays of one library: torch on a GPU, or NumPy."""

    def normal(self, *shape: int, dtype: str = "float16") -> Any:
        """Return floats of a normal distribution."""

    def integers(self, high: int, *shape: int, dtype: str = "int64") -> Any:
        """Return integers from 0 to high - 1."""


Args = tuple[Any, ...]


@dataclass(frozen=True)
class Problem:
    """One call of an op.

    work: bytes of memory that must be read and written, or operations. torch: the same call of
    PyTorch, given the module `torch` and the arguments; None if it has none.
    """

    op: str
    label: str
    unit: str
    work: float
    make: Callable[[Arrays], Args]
    torch: Callable[..., Any] | None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.op} {self.label}"


def bytes_of(*counts: int, size: int = 2) -> float:
    """Return the bytes of arrays with these numbers of elements."""
    return float(size * sum(counts))


def rowwise(rows: int, columns: Sequence[int]) -> Iterator[Problem]:
    for n in columns:
        count, label = rows * n, f"{rows}x{n}"

        def one(a: Arrays, n: Any = n) -> Any:
            return (a.normal(rows, n),)

        def two(a: Arrays, n: Any = n) -> Any:
            return (a.normal(rows, n), a.normal(rows, n))

        yield Problem(
            "softmax", label, "GB/s", bytes_of(2 * count), one, lambda t, x: t.softmax(x, -1)
        )
        yield Problem(
            "softmax_backward",
            label,
            "GB/s",
            bytes_of(3 * count),
            two,
            lambda t, dy, y: t.ops.aten._softmax_backward_data(dy, y, -1, y.dtype),
        )
        yield Problem(
            "layer_norm",
            label,
            "GB/s",
            bytes_of(2 * count),
            lambda a, n=n: (a.normal(rows, n), a.normal(n), a.normal(n)),
            lambda t, x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b),
        )
        yield Problem(
            "rms_norm",
            label,
            "GB/s",
            bytes_of(2 * count),
            lambda a, n=n: (a.normal(rows, n), a.normal(n)),
            lambda t, x, w: t.nn.functional.rms_norm(x, w.shape, w, 1e-6),
        )
        yield Problem(
            "rms_norm_backward", label, "GB/s", bytes_of(3 * count), norm_gradient(rows, n), None
        )
        yield Problem(
            "cross_entropy",
            label,
            "GB/s",
            bytes_of(count),
            lambda a, n=n: (a.normal(rows, n), a.integers(n, rows)),
            lambda t, x, y: t.nn.functional.cross_entropy(x.float(), y, reduction="none"),
        )
        yield Problem(
            "swiglu",
            label,
            "GB/s",
            bytes_of(3 * count),
            two,
            lambda t, gate, up: t.nn.functional.silu(gate) * up,
        )
        yield Problem("dropout", label, "GB/s", bytes_of(2 * count), seeded(rows, n), None)
        yield Problem("quantize", label, "GB/s", bytes_of(count) + count, one, None)
        yield Problem(
            "cumsum", label, "GB/s", bytes_of(2 * count), one, lambda t, x: t.cumsum(x, -1)
        )
        yield Problem(
            "adamw", label, "GB/s", bytes_of(3 * count) + 16.0 * count, optimizer(rows, n), None
        )


def norm_gradient(rows: int, n: int) -> Callable[[Arrays], Args]:
    return lambda a: (a.normal(rows, n), a.normal(rows, n), a.normal(n))


def seeded(rows: int, n: int) -> Callable[[Arrays], Args]:
    return lambda a: (a.normal(rows, n), 0.1, 7)


def optimizer(rows: int, n: int) -> Callable[[Arrays], Args]:
    def make(a: Arrays) -> Args:
        moments = a.normal(rows, n, dtype="float32"), a.normal(rows, n, dtype="float32") ** 2
        return a.normal(rows, n), a.normal(rows, n), *moments, 3, 1e-3

    return make


def linear(shapes: Sequence[tuple[int, int, int]]) -> Iterator[Problem]:
    for m, n, k in shapes:
        yield Problem(
            "matmul",
            f"{m}x{n}x{k}",
            "TFLOP/s",
            2.0 * m * n * k,
            lambda a, m=m, n=n, k=k: (a.normal(m, k), a.normal(k, n)),
            lambda t, x, y: x @ y,
        )


def int4(m: int, n: int, k: int) -> Iterator[Problem]:
    """Yield a matmul by weights of 4 bits; PyTorch has them in float16, converted beforehand."""
    converted: list[Any] = []

    def make(a: Arrays) -> Args:
        packed = a.integers(256, k // 128, n, 64, dtype="uint8").swapaxes(0, 1)
        return a.normal(m, k), packed, a.normal(k // 128, n, dtype="float32").T

    def by_torch(torch: Any, x: Any, packed: Any, scales: Any) -> Any:
        if not converted:
            groups = packed.reshape(n, k // 128, 64)
            q = torch.cat([groups & 15, groups >> 4], dim=-1).reshape(n, k).float() - 8
            converted.append((q * scales.repeat_interleave(128, dim=1)).to(x.dtype))
        return x @ converted[0].T

    yield Problem("int4_matmul", f"{m}x{n}x{k}", "TFLOP/s", 2.0 * m * n * k, make, by_torch)


def attention(
    batch: int, heads: int, key_heads: int, context: int, sizes: Sequence[int]
) -> Iterator[Problem]:
    for size in sizes:
        for causal in (False, True):
            operations = 4.0 * batch * heads * context * context * size / (2 if causal else 1)
            yield Problem(
                "attention",
                f"D={size}{' causal' if causal else ''}",
                "TFLOP/s",
                operations,
                lambda a, size=size: tuple(
                    a.normal(batch, count, context, size) for count in (heads, key_heads, key_heads)
                ),
                lambda t, q, k, v, causal=causal: t.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=True
                ),
                {"causal": causal},
            )


def decoding(batch: int, heads: int, key_heads: int, context: int, size: int) -> Iterator[Problem]:
    def make(a: Arrays) -> Args:
        k, v = (a.normal(batch, key_heads, context, size) for _ in range(2))
        lengths = a.integers(1, batch, dtype="int32") + context
        return a.normal(batch, heads, size), k, v, lengths

    yield Problem(
        "decode_attention",
        f"{batch}x{heads}/{key_heads}x{context}",
        "GB/s",
        bytes_of(2 * batch * key_heads * context * size),
        make,
        lambda t, q, k, v, n: t.nn.functional.scaled_dot_product_attention(
            q[:, :, None], k, v, enable_gqa=True
        )[:, :, 0],
    )


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    yield from rowwise(4096, (1024, 4096, 8192))
    yield from linear(((1760, 16, 1760), (2560, 64, 2560), (512, 512, 16384), (4096, 4096, 4096)))
    for m in (1, 16, 2048):
        yield from int4(m, 8192, 8192)
    yield from attention(4, 32, 32, 4096, (64, 128))
    yield from decoding(64, 64, 8, 8192, 128)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from rowwise(256, (1000,))
    yield from linear(((176, 16, 176), (256, 256, 256)))
    yield from int4(5, 128, 256)
    yield from attention(1, 2, 1, 128, (64,))
    yield from decoding(2, 8, 2, 256, 64)
