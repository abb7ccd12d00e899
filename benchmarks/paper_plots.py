"""The plots of introductions to Triton: elementwise, softmax, matmul, attention, and `sin`.

The elementwise kernels have one source for both compilers (`gpu_kernels.py`); the others of `tile`
are those of `tile.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from compiler_peers import Run, fastest, if_it_runs, installed, kernels_of
from ops import Bench, reference_of
from paper_figures import Figure, Points, Problem, matmuls, small

import tile.ops

LOG2_E = 1.4426950408889634
BLOCKS = tuple(
    {"BLOCK": block, "num_warps": warps}
    for block, warps in ((512, 4), (1024, 4), (1024, 8), (2048, 8))
)


def new_like(bench: Bench, x: Any) -> Any:
    return np.empty_like(x) if bench.torch is None else bench.torch.empty_like(x)


def elementwise(bench: Bench, name: str, shape: tuple[int, ...]) -> Problem:
    """Return "add", of two arrays of float32, or "sin" of one."""
    inputs = [bench.arrays.normal(*shape, dtype="float32") for _ in range(1 + (name == "add"))]
    n = math.prod(shape)

    def compiled(compiler: str) -> Run:
        kernel, out = getattr(kernels_of(compiler), f"{name}_kernel"), new_like(bench, inputs[0])

        def run_of(blocks: dict[str, int]) -> Run:
            def run() -> Any:
                kernel[(math.ceil(n / blocks["BLOCK"]),)](*inputs, out, n, **blocks)
                return out

            return run

        return fastest(map(run_of, BLOCKS))

    peers = {"tile": compiled("tile")}
    if bench.torch is not None and installed("triton"):
        peers["Triton"] = if_it_runs("Triton", lambda: compiled("triton"))
    other, library = ("NumPy", np) if bench.torch is None else ("torch", bench.torch)
    peers[other] = lambda: getattr(library, name)(*inputs)
    label = "x".join(map(str, shape))
    bytes_ = 4.0 * n * (len(inputs) + 1)
    return Problem(label, bytes_, {p: run for p, run in peers.items() if run}, other)


def sizes(bench: Bench) -> Points:
    for power in (12, 14, 16, 18, 20, 22, 24, 26, 27) if bench.torch else (12, 16, 20):
        yield str(2**power), partial(elementwise, bench, "add", (2**power,))


def rows_of(
    make: Callable[[Bench, int, int], Problem], columns: tuple[int, ...]
) -> Callable[[Bench], Points]:
    """Return the points of matrices of 4096 rows."""

    def points(bench: Bench) -> Points:
        rows = small(bench, 4096)
        for n in columns:
            count = small(bench, n)
            yield f"{rows}x{count}", partial(make, bench, rows, count)

    return points


def softmax(bench: Bench, rows: int, columns: int) -> Problem:
    x = bench.arrays.normal(rows, columns, dtype="float32")
    peers: dict[str, Run | None] = {"tile": lambda: tile.ops.softmax(x)}
    if bench.torch is None:
        other = "NumPy"
        peers[other] = lambda: reference_of("softmax")(x)
    else:
        other = "torch"
        if installed("triton"):
            peers["Triton"] = if_it_runs("Triton", lambda: triton_softmax(bench, x))
        peers[other] = lambda: x.softmax(-1)
    present = {name: run for name, run in peers.items() if run}
    return Problem(f"{rows}x{columns}", 8.0 * rows * columns, present, other)


def triton_softmax(bench: Bench, x: Any) -> Run:
    rows, columns = x.shape
    kernel, out = kernels_of("triton").softmax_kernel, new_like(bench, x)
    block = 1 << (columns - 1).bit_length()

    def run_of(warps: int) -> Run:
        def run() -> Any:
            kernel[(rows,)](out, x, columns, columns, BLOCK=block, num_warps=warps)
            return out

        return run

    return fastest(run_of(warps) for warps in (4, 8, 16) if block >= 64 * warps)


def attention(bench: Bench, length: int, causal: bool) -> Problem:
    batch, heads, size = (4, 32, 128) if bench.torch else (1, 2, 64)
    shape = (batch, heads, length, size)
    q, k, v = (bench.arrays.normal(*shape) for _ in range(3))
    peers: dict[str, Run | None] = {"tile": lambda: tile.ops.attention(q, k, v, causal)}
    if bench.torch is None:
        other = "NumPy"
        peers[other] = lambda: reference_of("attention")(q, k, v, causal)
    else:
        other, function = "torch", bench.torch.nn.functional.scaled_dot_product_attention
        if installed("triton"):
            triton = partial(triton_attention, bench, q, k, v, causal)
            peers["Triton"] = if_it_runs("Triton", triton)
        peers[other] = lambda: function(q, k, v, is_causal=causal)
    present = {name: run for name, run in peers.items() if run}
    work = 4.0 * batch * heads * length * length * size / (2 if causal else 1)
    return Problem(str(length), work, present, other, (q, k, v))


def triton_attention(bench: Bench, q: Any, k: Any, v: Any, causal: bool) -> Run:
    batch, heads, length, size = q.shape
    kernel, out = kernels_of("triton").attention_kernel, new_like(bench, q)
    logs = bench.torch.empty(batch * heads, length, device="cuda")

    def run_of(tiles: dict[str, int]) -> Run:
        def run() -> Any:
            kernel[(length // tiles["BM"], batch * heads)](
                *(q, k, v, out, logs, size**-0.5 * LOG2_E, length),
                **tiles,
                HEAD=size,
                CAUSAL=causal,
            )
            return out

        return run

    # Causal blocks of queries and keys are equal, or a multiple.
    choices = ((64, 64, 4, 3), (128, 64, 4, 2), (128, 64, 8, 2))
    names = ("BM", "BN", "num_warps", "num_stages")
    return fastest(run_of(dict(zip(names, choice, strict=True))) for choice in choices)


def lengths(causal: bool) -> Callable[[Bench], Points]:
    def points(bench: Bench) -> Points:
        for length in (1024, 2048, 4096, 8192) if bench.torch else (128, 256):
            yield str(length), partial(attention, bench, length, causal)

    return points


ROWS = (256, 512, 781, 1024, 2048, 4096, 8192, 12672)
SQUARES = tuple((n, n, n) for n in (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192))
PLOTS = (
    Figure("add", "Elementwise: sums of float32", "elements", sizes, "GB/s"),
    Figure(
        "sin",
        "sin of float32, 4096 x N",
        "M x N",
        rows_of(lambda bench, *shape: elementwise(bench, "sin", shape), ROWS),
        "GB/s",
    ),
    Figure("softmax", "Softmax of float32, 4096 x N", "M x N", rows_of(softmax, ROWS), "GB/s"),
    Figure("matmul", "Square matmul, float16", "M x N x K", matmuls(*SQUARES, everyone=True)),
    Figure("attention", "Attention, float16, 4 x 32 x N x 128", "N", lengths(False)),
    Figure("attention-causal", "Causal attention, float16", "N", lengths(True)),
)
