"""The figures of `benchmarks/paper.py`: problems, and who computes them.

Sizes are those of "Triton: An Intermediate Language and Compiler for Tiled Neural Network
Computations" (Tillet, Kung and Cox, MAPL 2019), with ten times smaller ones for a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from compiler_peers import Run, if_it_runs, tilelang_matmul, tilelang_name, triton_matmul
from ops import Bench, reference_of

import tile.ops

# height, width, channels, batch, filters, R, S of the convolutions of table 1
TASKS = {
    1: (112, 112, 64, 4, 128, 3, 3),
    2: (56, 56, 128, 4, 256, 3, 3),
    3: (28, 28, 256, 4, 512, 3, 3),
    4: (14, 14, 512, 4, 512, 3, 3),
    5: (7, 7, 512, 4, 512, 3, 3),
    6: (161, 700, 1, 8, 64, 5, 5),
    7: (79, 341, 32, 8, 32, 5, 10),
}
MATMULS = (
    *((1760, n, 1760) for n in (16, 32, 64, 128)),
    (2560, 64, 2560),
    (2048, 7000, 2048),
    (4096, 16, 4096),
    (512, 512, 16384),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
)
ROOFLINE = (16, 32, 64, 128, 256, 512, 1024, 1760)


@dataclass(frozen=True)
class Problem:
    """One point of a figure: `peers` compute it, and the first of them is `tile`.

    work: operations, or bytes of memory that must be read and written. expected: the peer whose
    result the first one must have. inputs: the arrays that peers read, where `work` counts
    operations.
    """

    label: str
    work: float
    peers: dict[str, Run]
    expected: str
    inputs: tuple[Any, ...] = ()


Points = Iterator[tuple[str, Callable[[], Problem]]]


@dataclass(frozen=True)
class Figure:
    """A figure: its points by label, each with the function that makes its problem.

    unit: TFLOP/s, timed by CUDA graphs, or GB/s, timed by single calls with a cold L2 cache.
    """

    name: str
    title: str
    xlabel: str
    points: Callable[[Bench], Points]
    unit: str = "TFLOP/s"


def small(bench: Bench, size: int) -> int:
    """Return a size for this machine: a tenth without a GPU."""
    return size if bench.torch is not None else max(1, size // 10)


def matmul_problem(bench: Bench, m: int, n: int, k: int, everyone: bool = False) -> Problem:
    """Return a matmul of float16; `everyone` has the peers that take long to compile."""
    a, b = bench.arrays.normal(m, k), bench.arrays.normal(k, n)
    peers: dict[str, Run | None] = {"tile": lambda: tile.ops.matmul(a, b)}
    if bench.torch is None:
        other = "NumPy"
        peers[other] = lambda: reference_of("matmul")(a, b)
    else:
        other = "cuBLAS"
        peers["tile, stream-K"] = lambda: tile.ops.matmul(a, b, splits="stream")
        if everyone:
            peers["Triton"] = if_it_runs("Triton", lambda: triton_matmul(bench.torch, a, b))
            name = tilelang_name()
            peers[name] = if_it_runs(name, lambda: tilelang_matmul(a, b))
        peers[other] = lambda: a @ b
    present = {name: run for name, run in peers.items() if run is not None}
    return Problem(f"{m}x{n}x{k}", 2.0 * m * n * k, present, other, (a, b))


def matmuls(*sizes: tuple[int, int, int], everyone: bool = False) -> Callable[[Bench], Points]:
    """Return the points of matmuls of M x K and K x N elements."""

    def points(bench: Bench) -> Points:
        for size in sizes:
            m, n, k = (small(bench, extent) for extent in size)
            label = f"{m}x{n}x{k}"
            yield label, partial(matmul_problem, bench, m, n, k, everyone)

    return points


def convolutions(dtype: str, precision: str) -> Callable[[Bench], Points]:
    def points(bench: Bench) -> Points:
        for number in TASKS:
            yield f"task {number}", partial(convolution, bench, number, dtype, precision)

    return points


def convolution(bench: Bench, number: int, dtype: str, precision: str) -> Problem:
    """Return a task of table 1."""
    height, width, channels, batch, filters, r, s = TASKS[number]
    if bench.torch is None:
        height, width, batch = small(bench, height), small(bench, width), 1
        height, width = max(height, r), max(width, s)
    x = bench.arrays.normal(batch, height, width, channels, dtype=dtype)
    w = bench.arrays.normal(filters, r, s, channels, dtype=dtype)
    edges = (r // 2, s // 2)
    pixels = batch * (height + 2 * edges[0] - r + 1) * (width + 2 * edges[1] - s + 1)
    other = "NumPy" if bench.torch is None else "cuDNN"
    peers: dict[str, Run] = {
        "tile": lambda: tile.ops.conv2d(x, w, padding=edges, precision=precision),
        other: other_convolution(bench, x, w, edges),
    }
    work = 2.0 * pixels * filters * r * s * channels
    return Problem(f"task {number}", work, peers, other, (x, w))


def other_convolution(bench: Bench, x: Any, w: Any, edges: tuple[int, int]) -> Run:
    """Return the fastest convolution that cuDNN finds, with channels last; or the reference."""
    if bench.torch is None:
        return lambda: reference_of("conv2d")(x, w, padding=edges)
    function = bench.torch.nn.functional.conv2d
    images, filters = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    return lambda: function(images, filters, padding=edges).permute(0, 2, 3, 1)


def shift_convolutions(bench: Bench) -> Points:
    for number in range(1, 6):
        yield f"task {number}", partial(shift_convolution, bench, number)


def shift_convolution(bench: Bench, number: int) -> Problem:
    """Return a task as a shift convolution, whose channels are in nine groups, one a shift."""
    height, width, channels, batch, filters, _, _ = TASKS[number]
    if bench.torch is None:
        height, width, batch = small(bench, height), small(bench, width), 1
    x = bench.arrays.normal(batch, height, width, channels)
    w = bench.arrays.normal(filters, channels)
    # Whole groups of eight channels, so that loads are vectors.
    group = np.arange(channels) // 8 * 9 // (channels // 8)
    down, right = (group // 3 - 1).astype(np.int32), (group % 3 - 1).astype(np.int32)
    shifts: list[Any] = [down, right]
    if bench.torch is not None:
        shifts = [bench.torch.from_numpy(shift).cuda() for shift in shifts]
    pixels = batch * height * width
    flat, columns = x.reshape(pixels, channels), w.T
    peers: dict[str, Run] = {
        "tile": lambda: tile.ops.shift_conv(x, w, *shifts, 8),
        "tile, 1x1 without shift": lambda: tile.ops.matmul(flat, columns),
    }
    if bench.torch is None:
        other = "NumPy"
        peers[other] = lambda: reference_of("shift_conv")(x, w, *shifts)
    else:
        other = "torch, shift and 1x1"
        peers["cuBLAS, 1x1 without shift"] = lambda: flat @ columns
        peers[other] = lambda: shifted(x, down, right) @ columns
    work = 2.0 * pixels * channels * filters
    return Problem(f"task {number}", work, peers, other, (x, w))


def shifted(x: Any, down: np.ndarray, right: np.ndarray) -> Any:
    """Return a torch tensor whose channels are shifted, group by group, zeros outside."""
    result = x.new_zeros(x.shape)
    height, width = x.shape[1:3]
    for h in (-1, 0, 1):
        for w in (-1, 0, 1):  # 64 channels have only eight groups of eight, so one shift is unused
            group = np.flatnonzero((down == h) & (right == w))
            if not group.size:
                continue
            channels = slice(int(group[0]), int(group[-1]) + 1)
            to_h, to_w = window(height, -h), window(width, -w)
            from_h, from_w = window(height, h), window(width, w)
            result[:, to_h, to_w, channels] = x[:, from_h, from_w, channels]
    return result


def window(size: int, shift: int) -> slice:
    """Return the indices that a shift moves inside of 0 to size - 1."""
    return slice(max(0, shift), size + min(0, shift))


FIGURES = (
    Figure(
        "figure-1",
        "Figure 1: matmul 1760 x N x 1760, float16",
        "M x N x K",
        matmuls(*((1760, n, 1760) for n in ROOFLINE), everyone=True),
    ),
    Figure(
        "figure-8",
        "Figure 8: matmuls of DeepSpeech2 and Transformers, float16",
        "M x N x K",
        matmuls(*MATMULS),
    ),
    Figure(
        "figure-10-f16",
        "Figure 10: convolutions, float16, channels last",
        "task",
        convolutions("float16", "ieee"),
    ),
    Figure(
        "figure-10-tf32",
        "Figure 10: convolutions, tf32, channels last",
        "task",
        convolutions("float32", "tf32"),
    ),
    Figure(
        "figure-10-f32",
        "Figure 10: convolutions, float32, channels last",
        "task",
        convolutions("float32", "ieee"),
    ),
    Figure("figure-11", "Figure 11: shift convolutions, float16", "task", shift_convolutions),
)
