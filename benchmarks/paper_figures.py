"""The figures of `benchmarks/paper.py`: problems, and who computes them.

Sizes are those of "Triton: An Intermediate Language and Compiler for Tiled Neural Network
Computations" (Tillet, Kung and Cox, MAPL 2019), with ten times smaller ones for a CPU. A peer is a
function that returns the function to time; it may return None where it has no implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ops import Bench, reference_of

import tile.ops

Run = Callable[[], Any]
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
    """One point of a figure: `peers` compute it, the first of them is `tile`.

    work: floating-point operations. x: the abscissa of a plot. expected: the peer whose result the
    first one must have; None checks nothing. bytes: the memory that must be read and written.
    """

    label: str
    x: float
    work: float
    peers: dict[str, Run]
    expected: str | None
    bytes: float = 0.0


@dataclass(frozen=True)
class Figure:
    """A figure of the paper."""

    name: str
    title: str
    xlabel: str
    problems: Callable[[Bench], Iterator[Problem]]


def small(bench: Bench, size: int) -> int:
    """Return a size for this machine: a tenth without a GPU."""
    return size if bench.torch is not None else max(1, size // 10)


def matmul_problem(bench: Bench, m: int, n: int, k: int) -> Problem:
    label, x = f"{m}x{n}x{k}", n
    m, n, k = (small(bench, size) for size in (m, n, k))
    a, b = bench.arrays.normal(m, k), bench.arrays.normal(k, n)
    other = "NumPy" if bench.torch is None else "cuBLAS"
    peers: dict[str, Run] = {"tile": lambda: tile.ops.matmul(a, b)}
    peers[other] = (
        (lambda: reference_of("matmul")(a, b)) if bench.torch is None else (lambda: a @ b)
    )
    return Problem(label, x, 2.0 * m * n * k, peers, other, 2.0 * (m * k + k * n + m * n))


def roofline(bench: Bench) -> Iterator[Problem]:
    for n in ROOFLINE:
        yield matmul_problem(bench, 1760, n, 1760)


def matmuls(bench: Bench) -> Iterator[Problem]:
    for m, n, k in MATMULS:
        yield matmul_problem(bench, m, n, k)


def convolutions(dtype: str, precision: str) -> Callable[[Bench], Iterator[Problem]]:
    def problems(bench: Bench) -> Iterator[Problem]:
        for number, (height, width, channels, batch, filters, r, s) in TASKS.items():
            if bench.torch is None:
                height, width, batch = small(bench, height), small(bench, width), 1
                height, width = max(height, r), max(width, s)
            x = bench.arrays.normal(batch, height, width, channels, dtype=dtype)
            w = bench.arrays.normal(filters, r, s, channels, dtype=dtype)
            edges = (r // 2, s // 2)
            pixels = batch * (height + 2 * edges[0] - r + 1) * (width + 2 * edges[1] - s + 1)
            peers: dict[str, Run] = {
                "tile": lambda x=x, w=w, e=edges: tile.ops.conv2d(
                    x, w, padding=e, precision=precision
                )
            }
            other = "NumPy" if bench.torch is None else "cuDNN"
            peers[other] = other_convolution(bench, x, w, edges)
            work = 2.0 * pixels * filters * r * s * channels
            yield Problem(f"task {number}", number, work, peers, other)

    return problems


def other_convolution(bench: Bench, x: Any, w: Any, edges: tuple[int, int]) -> Run:
    """Return the fastest convolution that cuDNN finds, with channels last; or the reference."""
    if bench.torch is None:
        return lambda: reference_of("conv2d")(x, w, padding=edges)
    function = bench.torch.nn.functional.conv2d
    images, filters = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    return lambda: function(images, filters, padding=edges).permute(0, 2, 3, 1)


def shift_convolutions(bench: Bench) -> Iterator[Problem]:
    """Yield tasks 1 to 5 as shift convolutions, whose channels are in nine groups, one a shift."""
    for number in range(1, 6):
        height, width, channels, batch, filters, _, _ = TASKS[number]
        if bench.torch is None:
            height, width, batch = small(bench, height), small(bench, width), 1
        x = bench.arrays.normal(batch, height, width, channels)
        w = bench.arrays.normal(filters, channels)
        # Whole groups of eight channels, so that loads are vectors.
        group = np.arange(channels) // 8 * 9 // (channels // 8)
        down, right = (group // 3 - 1).astype(np.int32), (group % 3 - 1).astype(np.int32)
        shifts = [down, right]
        if bench.torch is not None:
            shifts = [bench.torch.from_numpy(shift).cuda() for shift in shifts]
        pixels = batch * height * width
        flat, columns = x.reshape(pixels, channels), w.T
        other = "NumPy" if bench.torch is None else "torch, shift and 1x1"
        peers: dict[str, Run] = {
            "tile": lambda x=x, w=w, s=shifts: tile.ops.shift_conv(x, w, *s, 8),
            "tile, 1x1 without shift": lambda f=flat, c=columns: tile.ops.matmul(f, c),
        }
        if bench.torch is None:
            peers[other] = lambda x=x, w=w, s=shifts: reference_of("shift_conv")(x, w, *s)
        else:
            peers["cuBLAS, 1x1 without shift"] = lambda f=flat, c=columns: f @ c
            peers[other] = lambda x=x, c=columns, d=down, r=right: shifted(x, d, r) @ c
        work = 2.0 * pixels * channels * filters
        yield Problem(f"task {number}", number, work, peers, other)


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
    Figure("figure-1", "Figure 1: matmul 1760 x N x 1760, float16", "N", roofline),
    Figure("figure-8", "Figure 8: matmuls of DeepSpeech2 and Transformers, float16", "N", matmuls),
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
