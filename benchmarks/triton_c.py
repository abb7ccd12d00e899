"""Compare a kernel in Triton-C with its Python port on OpenCL runtimes, interleaved in one process.

    python benchmarks/triton_c.py                        Intel's runtime and PoCL, on this CPU
    python benchmarks/triton_c.py --devices intel        one of them (see `tile info`)
    python benchmarks/triton_c.py --size 1024 --markdown

The kernel is listing 1 of the Triton paper, corrected: `examples/triton_c/matmul_nt.tc` and
`examples/matmul_nt.py`. A sample is the CPU time of this process for a launch, over all threads, so
that other processes matter little. Both are sampled once in each pair, in random order, on the same
arrays. The table has medians with their 95 % intervals by order statistics, which assume no
distribution; the ratio of speeds, Triton-C to Python, is that of pairs. The last column compares
the OpenCL C that they compile to, without comments and the kernel's name. The exit status is 1 if a
result is wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from intervals import interval

import tile
from tile import triton_c
from tile.runtime.kernel import CompiledKernel

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))
from matmul_nt import matmul_nt_kernel  # noqa: E402

TILES = ({"TM": 32, "TN": 32, "TK": 16}, {"TM": 128, "TN": 32, "TK": 16})
HEADER = ("runtime", "tiles", "Triton-C, CPU ms", "Python, CPU ms", "ratio of speeds", "program")
Launch = Callable[[], CompiledKernel]


def cell(samples: Sequence[float], scale: float, digits: int) -> str:
    """Return a median and its interval as text."""
    low, high = interval(samples)
    median, low, high = (scale * x for x in (statistics.median(samples), low, high))
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def cpu_seconds(launch: Launch) -> float:
    start = time.process_time()
    launch()
    return time.process_time() - start


def sample_pairs(launches: Sequence[Launch], count: int) -> list[list[float]]:
    """Return `count` samples of each launch; each is sampled once, in random order, then again."""
    samples: list[list[float]] = [[] for _ in launches]
    for _ in range(count):
        for index in random.sample(range(len(launches)), len(launches)):
            samples[index].append(cpu_seconds(launches[index]))
    return samples


def program(kernel: CompiledKernel) -> str:
    """Return a kernel's OpenCL C without its name, and without comments, which quote its source."""
    text = kernel.asm["opencl"]
    assert isinstance(text, str)
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(rf"\b{kernel.name}\b", "kernel_name", code)


def rows(devices: Sequence[str], size: int, pairs: int) -> Iterator[list[str]]:
    """Yield a row of the table for each runtime and choice of tiles."""
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.standard_normal((size, size), np.float32)) for _ in "ab")
    wanted, c = a @ b.T, np.zeros((size, size), np.float32, order="F")
    kernels = (
        triton_c.load(EXAMPLES / "triton_c" / "matmul_nt.tc").matmul_nt,
        matmul_nt_kernel.kernel,
    )
    for device in devices:
        for tiles in TILES:
            grid = tile.cdiv(size, tiles["TM"]), tile.cdiv(size, tiles["TN"])
            launches: list[Launch] = [
                lambda kernel=kernel, grid=grid, tiles=tiles: kernel[grid](
                    a, b, c, size, size, size, **tiles
                )
                for kernel in kernels
            ]
            programs, errors = [], []
            with tile.backend(f"opencl:@{device}"):
                for launch in launches:
                    c.fill(np.nan)
                    programs.append(program(launch()))
                    errors.append(float(np.abs(c - wanted).max()))
                samples = sample_pairs(launches, pairs)
            ratios = [python / own for own, python in zip(*samples, strict=True)]
            error = float(np.max(errors))  # NaN if there is one
            verdict = "equal" if programs[0] == programs[1] else "different"
            yield [
                device,
                " ".join(map(str, tiles.values())),
                *(cell(times, 1e3, 1) for times in samples),
                cell(ratios, 1, 3),
                verdict if error <= 1e-2 else f"WRONG by {error:.2g}",
            ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", nargs="+", default=["intel", "portable"], help="names")
    parser.add_argument("--size", type=int, default=512, help="M, N and K (%(default)s)")
    parser.add_argument("--pairs", type=int, default=201, help="of samples (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    options = parser.parse_args()
    between, edge = (" | ", "|") if options.markdown else ("  ", "")
    wrong = False
    for row in [list(HEADER), *([["---"] * len(HEADER)] if options.markdown else [])]:
        print(f"{edge} {between.join(row)} {edge}".strip())
    for row in rows(options.devices, options.size, options.pairs):
        print(f"{edge} {between.join(row)} {edge}".strip(), flush=True)
        wrong |= row[-1].startswith("WRONG")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
