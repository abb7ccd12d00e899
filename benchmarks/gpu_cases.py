"""The cases of `benchmarks/gpu.py`: problems, choices of tiles, and amounts of work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch.nn.functional import layer_norm, scaled_dot_product_attention

Tiles = dict[str, int]
LOG2_E = 1.4426950408889634
BATCH, HEADS, CONTEXT = 4, 32, 4096


@dataclass(frozen=True)
class Case:
    """One problem.

    `torch` computes it and returns the expected results. `run` takes the kernels of a peer and one
    of `choices`, and returns a function that computes `results`. Their error may be up to
    `tolerance` times the greatest number.
    """

    name: str
    unit: str  # GB/s or TFLOP/s
    work: float  # bytes or operations
    torch: Callable[[], Sequence[torch.Tensor]]
    run: Callable[[ModuleType, Tiles], Callable[[], Any]]
    results: tuple[torch.Tensor, ...]
    choices: tuple[Tiles, ...]
    tolerance: float

    def rate(self, seconds: float) -> float:
        return self.work / seconds / (1e9 if self.unit == "GB/s" else 1e12)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


Maker = Callable[[str], Case]


def makers() -> Iterator[tuple[str, Maker]]:
    """Yield the name of each case and the function that creates it."""
    for power in (20, 24, 27):
        yield f"add 2^{power}", partial(add, 1 << power)
    for columns in (256, 1024, 12672):
        yield f"sin 4096x{columns}", partial(sin, columns)
    for columns in (256, 781, 1024, 4096, 8192, 12672):
        yield f"softmax 4096x{columns}", partial(softmax, columns)
    for columns in (16384, 32000):
        yield f"looped softmax f16 4096x{columns}", partial(looped_softmax, columns)
    for columns in (1024, 4096, 8192, 16384):
        yield f"layer norm 4096x{columns}", partial(norm, columns)
    for n in (1024, 2048, 4096, 8192):
        yield f"matmul f16 {n}", partial(matmul, n, n, n, torch.float16)
    for n in (4096, 8192):
        yield f"matmul bf16 {n}", partial(matmul, n, n, n, torch.bfloat16)
    for kind, n in itertools.product(KINDS, (4096, 8192)):
        yield f"matmul {kind} {n}", partial(matmul_of_kind, KINDS[kind], n)
    for n in (2048, 4096, 8192):
        yield f"matmul f16 {n}, descriptors", partial(matmul_descriptors, n, n, n)
    for m, n, k in SKINNY:
        yield f"matmul f16 {m}x{n}x{k}", partial(matmul, m, n, k, torch.float16)
    yield "matmul f16 2048x7000x2048, descriptors", partial(matmul_descriptors, 2048, 7000, 2048)
    for title, make in (("attention", attention), ("attention backward", backward)):
        for head, causal in itertools.product((64, 128), (False, True)):
            yield f"{title} D={head}{', causal' if causal else ''}", partial(make, head, causal)


# -- bound by memory


def row_tiles(columns: int) -> tuple[Tiles, ...]:
    """Return a block that holds a row, with numbers of warps for 8 to 128 elements per thread."""
    block = 1 << (columns - 1).bit_length()
    warps = [warps for warps in (2, 4, 8, 16, 32) if 8 <= block // (32 * warps) <= 128]
    return tuple({"BLOCK": block, "num_warps": count} for count in warps or [4])


def rows_tiles(columns: int) -> tuple[Tiles, ...]:
    """Return blocks of one row, or also of several rows if a row is short."""
    block = 1 << (columns - 1).bit_length()
    if block > 1024:
        return tuple({"ROWS": 1, **tiles} for tiles in row_tiles(columns))
    choices = ((1, 1), (1, 4), (2, 1), (2, 2), (2, 4), (4, 4))
    return tuple({"ROWS": rows, "BLOCK": block, "num_warps": warps} for rows, warps in choices)


FLAT = tuple(
    {"BLOCK": block, "num_warps": warps}
    for block, warps in ((512, 4), (1024, 2), (1024, 4), (1024, 8), (2048, 8), (4096, 4))
)


def add(n: int, name: str) -> Case:
    x, y = normal(n), normal(n)
    out, wanted = torch.empty_like(x), torch.empty_like(x)

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (math.ceil(n / tiles["BLOCK"]),)
        return lambda: kernels.add_kernel[grid](x, y, out, n, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.add(x, y, out=wanted),)

    return Case(name, "GB/s", 12 * n, by_torch, run, (out,), FLAT, 0.0)


def sin(columns: int, name: str) -> Case:
    x = normal(4096, columns)
    out, wanted = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (math.ceil(n / tiles["BLOCK"]),)
        return lambda: kernels.sin_kernel[grid](x, out, n, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.sin(x, out=wanted),)

    return Case(name, "GB/s", 8 * n, by_torch, run, (out,), FLAT, 1e-6)


def softmax(columns: int, name: str) -> Case:
    x = normal(4096, columns)
    out, wanted = torch.empty_like(x), torch.empty_like(x)

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (4096 // tiles["ROWS"],)
        return lambda: kernels.softmax_rows_kernel[grid](out, x, columns, 4096, columns, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.softmax(x, dim=-1, out=wanted),)

    choices = rows_tiles(columns)
    return Case(name, "GB/s", 8 * x.numel(), by_torch, run, (out,), choices, 1e-5)


LOOPED = tuple(
    {"BLOCK": block, "num_warps": warps}
    for block, warps in ((2048, 4), (4096, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16))
)


def looped_softmax(columns: int, name: str) -> Case:
    x = normal(4096, columns, dtype=torch.float16)
    out, wanted = torch.empty_like(x), torch.empty_like(x)

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        return lambda: kernels.looped_softmax_kernel[(4096,)](out, x, columns, columns, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.softmax(x, dim=-1, out=wanted),)

    return Case(name, "GB/s", 4 * x.numel(), by_torch, run, (out,), LOOPED, 2e-3)


def norm(columns: int, name: str) -> Case:
    x = normal(4096, columns, dtype=torch.float16)
    weight, bias = (normal(columns, dtype=torch.float16) for _ in "wb")
    out = torch.empty_like(x)

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        inputs = (x, out, weight, bias, columns, 1e-5)
        return lambda: kernels.layer_norm_kernel[(4096,)](*inputs, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (layer_norm(x, x.shape[1:], weight, bias),)

    choices = row_tiles(columns)
    return Case(name, "GB/s", 4 * x.numel(), by_torch, run, (out,), choices, 2e-3)


# -- matmul

SKINNY = (
    *((1760, n, 1760) for n in (16, 32, 64, 128)),
    (2560, 64, 2560),
    (2048, 7000, 2048),
    (4096, 16, 4096),
)


def matmul_tiles(n: int) -> tuple[Tiles, ...]:
    """Return tiles for matmuls with `n` columns: edges, warps, depth and stages.

    With few tiles, a program that has most of its operands in flight hides the latency of memory.
    """
    shapes: tuple[tuple[int, int, int], ...]
    if n > 1024:
        shapes = ((128, 128, 4), (128, 128, 8), (128, 256, 8), (64, 128, 4))
        return tiles_of(shapes, ((32, 4), (64, 3), (64, 4)))
    if n == 1024:
        shapes = ((128, 128, 4), (128, 128, 8), (128, 256, 8), (64, 128, 4), (128, 64, 4))
        return tiles_of(shapes, ((64, 3), (64, 4))) + tiles_of(shapes[3:], ((64, 6), (64, 8)))
    narrow, middle, wide = (min(n, width) for width in (32, 64, 128))
    edges = ((16, narrow), (32, narrow), (64, narrow), (64, middle), (16, wide), (64, wide))
    shapes = tuple((rows, columns, 4) for rows, columns in dict.fromkeys(edges))
    return tiles_of(shapes, ((128, 3), (128, 6), (256, 4)))


def tiles_of(
    shapes: Sequence[tuple[int, int, int]], depths: Sequence[tuple[int, int]]
) -> tuple[Tiles, ...]:
    """Return all combinations of shapes (edges and warps) with depths and stages."""
    return tuple(
        {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
        for (bm, bn, warps), (bk, stages) in itertools.product(shapes, depths)
    )


def matmul(m: int, n: int, k: int, dtype: torch.dtype, name: str) -> Case:
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    out, wanted = (torch.empty(m, n, device="cuda", dtype=dtype) for _ in range(2))

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (math.ceil(m / tiles["BM"]) * math.ceil(n / tiles["BN"]),)
        return lambda: kernels.matmul_kernel[grid](a, b, out, m, n, k, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.matmul(a, b, out=wanted),)

    tolerance = 2e-3 if dtype is torch.float16 else 1e-2
    return Case(name, "TFLOP/s", 2 * m * n * k, by_torch, run, (out,), matmul_tiles(n), tolerance)


@dataclass(frozen=True)
class Kind:
    """A square matmul of other elements than f16, with accumulators of type `sums`.

    B is column-major if `by_columns`, else row-major; `by_torch` computes the expected result.
    """

    element: torch.dtype
    out: torch.dtype
    sums: str
    by_columns: bool
    by_torch: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    tolerance: float
    depths: tuple[tuple[int, int], ...] = ((64, 4), (128, 3))
    precision: str | None = None
    imprecise: int | None = None


def by_torch_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch.matmul(a, b)


def by_torch_fp8(a: torch.Tensor, b: torch.Tensor, *, fast: bool) -> torch.Tensor:
    one = torch.ones((), device="cuda")
    out = torch.bfloat16
    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast)


F8 = (torch.float8_e4m3fn, torch.bfloat16, "float32", True)
KINDS = {
    **{
        name: Kind(
            torch.float32, torch.float32, "float32", columns, by_torch_tf32, 2e-3,
            ((32, 3), (32, 4)), "tf32",
        )
        for name, columns in (("tf32", False), ("tf32, B by columns", True))
    },
    **{
        name: Kind(torch.int8, torch.int32, "int32", columns, torch._int_mm, 0.0)
        for name, columns in (("int8", False), ("int8, B by columns", True))
    },
    "fp8, imprecise sums": Kind(*F8, partial(by_torch_fp8, fast=True), 1e-2),
    "fp8, imprecise sums of 128": Kind(
        *F8, partial(by_torch_fp8, fast=False), 1e-2, ((128, 3), (128, 4)), imprecise=128
    ),
    "fp8": Kind(*F8, partial(by_torch_fp8, fast=False), 1e-2, imprecise=0),
}  # fmt: skip


def numbers(n: int, element: torch.dtype) -> torch.Tensor:
    """Return a square matrix of normally distributed floats, or of integers of the full range."""
    if element is torch.int8:
        return torch.randint(-128, 128, (n, n), device="cuda", dtype=element)
    return normal(n, n).to(element)


def matmul_of_kind(kind: Kind, n: int, name: str) -> Case:
    a, b = (numbers(n, kind.element) for _ in "ab")
    right = b.t() if kind.by_columns else b
    out = torch.empty(n, n, device="cuda", dtype=kind.out)

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (math.ceil(n / tiles["BM"]) * math.ceil(n / tiles["BN"]),)
        constants = {
            "SUMS": getattr(kernels.tl, kind.sums),
            "B_BY_COLUMNS": kind.by_columns,
            "PRECISION": kind.precision,
            "IMPRECISE": kind.imprecise,
        }
        return lambda: kernels.matmul_kernel[grid](a, b, out, n, n, n, **constants, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (kind.by_torch(a, right),)

    choices = tiles_of(WGMMA_TILES, kind.depths)
    return Case(name, "TFLOP/s", 2 * n**3, by_torch, run, (out,), choices, kind.tolerance)


WGMMA_TILES = ((128, 128, 4), (128, 128, 8), (128, 256, 8), (256, 128, 8))


def matmul_descriptors(m: int, n: int, k: int, name: str) -> Case:
    """Return a matmul whose tiles are blocks of descriptors that the host creates."""
    a, b = normal(m, k, dtype=torch.float16), normal(k, n, dtype=torch.float16)
    out, wanted = (torch.empty(m, n, device="cuda", dtype=torch.float16) for _ in range(2))

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        rows, columns, depth = (tiles[name] for name in ("BM", "BN", "BK"))
        blocks = ([rows, depth], [depth, columns], [rows, columns])
        make = kernels.TensorDescriptor.from_tensor
        descriptors = [make(x, block) for x, block in zip((a, b, out), blocks, strict=True)]
        grid = (math.ceil(m / rows) * math.ceil(n / columns),)
        kernel = kernels.matmul_descriptors_kernel[grid]
        return lambda: kernel(*descriptors, m, n, k, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (torch.matmul(a, b, out=wanted),)

    return Case(name, "TFLOP/s", 2 * m * n * k, by_torch, run, (out,), matmul_tiles(n), 2e-3)


# -- attention


def attention_tiles(shapes: Sequence[tuple[int, int, int]]) -> tuple[Tiles, ...]:
    return tuple(
        {"BM": bm, "BN": bn, "num_warps": warps, "num_stages": stages}
        for (bm, bn, warps), stages in itertools.product(shapes, (2, 3))
    )


def operations(head: int, causal: bool) -> float:
    return 4 * BATCH * HEADS * CONTEXT**2 * head / (2 if causal else 1)


def attention(head: int, causal: bool, name: str) -> Case:
    q, k, v = (normal(BATCH, HEADS, CONTEXT, head, dtype=torch.float16) for _ in "qkv")
    out = torch.empty_like(q)
    log_sum = torch.empty(BATCH, HEADS, CONTEXT, device="cuda")

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        grid = (CONTEXT // tiles["BM"], BATCH * HEADS)
        inputs = (q, k, v, out, log_sum, head**-0.5 * LOG2_E, CONTEXT)
        kernel = kernels.attention_kernel[grid]
        return lambda: kernel(*inputs, HEAD=head, CAUSAL=causal, **tiles)

    def by_torch() -> Sequence[torch.Tensor]:
        return (scaled_dot_product_attention(q, k, v, is_causal=causal),)

    work = operations(head, causal)
    choices = attention_tiles(((64, 64, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8)))
    return Case(name, "TFLOP/s", work, by_torch, run, (out,), choices, 5e-3)


def backward(head: int, causal: bool, name: str) -> Case:
    q, k, v = (
        normal(BATCH, HEADS, CONTEXT, head, dtype=torch.float16).requires_grad_() for _ in "qkv"
    )
    out = scaled_dot_product_attention(q, k, v, is_causal=causal)
    dout = torch.randn_like(out)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    inputs = tuple(x.detach() for x in (q, k, v, dout))
    delta = torch.empty(BATCH, HEADS, CONTEXT, device="cuda")
    log_sum = logarithms(*inputs[:2], causal)
    scales = (head**-0.5, head**-0.5 * LOG2_E)
    done = out.detach()

    def run(kernels: ModuleType, tiles: Tiles) -> Callable[[], Any]:
        flat = (BATCH * HEADS * CONTEXT // 64,)
        grid = (CONTEXT // tiles["BM"], BATCH * HEADS)
        by_query = {"HEAD": head, "CAUSAL": causal, **tiles}
        by_key = {**by_query, "BM": tiles["BN"], "BN": tiles["BM"]}
        arguments = (*inputs, log_sum, delta)

        def compute() -> None:
            kernels.out_dot_kernel[flat](done, inputs[3], delta, BM=64, HEAD=head)
            kernels.backward_kv_kernel[grid](*arguments, dk, dv, *scales, CONTEXT, **by_key)
            kernels.backward_q_kernel[grid](*arguments, dq, *scales, CONTEXT, **by_query)

        return compute

    def by_torch() -> Sequence[torch.Tensor]:
        return torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    work = 2.5 * operations(head, causal)
    choices = attention_tiles(((64, 32, 4), (64, 64, 4), (128, 64, 8)))
    return Case(name, "TFLOP/s", work, by_torch, run, (dq, dk, dv), choices, 1e-2)


def logarithms(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """Return log2 of the sum of exponentials of each query's scores, computed head by head."""
    rows = []
    mask = torch.ones(CONTEXT, CONTEXT, device="cuda", dtype=torch.bool).tril() if causal else None
    for queries, keys in zip(q.flatten(0, 1), k.flatten(0, 1), strict=True):
        scores = queries.float() @ keys.float().T * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        rows.append(torch.logsumexp(scores, dim=-1) * LOG2_E)
    return torch.stack(rows).reshape(q.shape[:-1])
