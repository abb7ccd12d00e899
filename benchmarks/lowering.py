"""Time the lowering from TILE IR to THREAD IR, also as kernels grow.

    python benchmarks/lowering.py                   medians for each kernel, pass by pass
    python benchmarks/lowering.py --target generic  for another machine of tile/simt/target.py
    python benchmarks/lowering.py --growth          time against operations and tile sizes
    python benchmarks/lowering.py --profile matmul  a profile of Python's functions
    python benchmarks/lowering.py --markdown        the tables as Markdown

The first lowering of a process fills the caches of the layout algebra, so its time is listed apart.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tile
import tile.language as tl
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.passes import PassManager
from tile.simt.pass_pipeline import lowering
from tile.simt.target import SimtTarget

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from attention import backward_kv_kernel, backward_q_kernel, forward_kernel  # noqa: E402

REPEATS = 9
POINTER, COUNT = "*fp16:16", "i32:16"


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Compute a matmul as tutorials write it."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows % M)[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + (columns % N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK * N
    c = total.to(tl.float16)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], c, mask=mask)


@tile.jit
def chain(x_ptr, y_ptr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """Run a chain of `STEPS` steps of three operations."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for step in tl.static_range(STEPS):
        x = x * 1.5 + step
        x = tl.maximum(x, tl.sum(x, axis=0))
    tl.store(y_ptr + at, x)


def _pointers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, POINTER)


def _matmul(bm: int, bn: int, bk: int) -> Module:
    signature = _pointers("a_ptr", "b_ptr", "c_ptr") | dict.fromkeys("MNK", COUNT)
    return _module(matmul, signature, {"BM": bm, "BN": bn, "BK": bk})


def _module(function: Any, signature: dict[str, str], constants: dict[str, int]) -> Module:
    """Return the optimized TILE IR of a kernel."""
    return tile.compile(function, signature, constants, target="interp").artifact.module


def _example(function: Any) -> Module:
    """Return a kernel of `examples/attention.py` with f16 arrays, and f32 arrays of sums."""
    kinds = {"context": COUNT, "log_sum_ptr": "*fp32:16", "delta_ptr": "*fp32:16"}
    names = [p.name for p in function.parameters if not p.is_constexpr]
    signature = {
        name: kinds.get(name, POINTER if name.endswith("_ptr") else "fp32") for name in names
    }
    constants = {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD": 64, "CAUSAL": True}
    return _module(function, signature, constants)


KERNELS: dict[str, Callable[[], Module]] = {
    "matmul 128x256x64": lambda: _matmul(128, 256, 64),
    "attention forward": lambda: _example(forward_kernel),
    "attention backward, k and v": lambda: _example(backward_kv_kernel),
    "attention backward, q": lambda: _example(backward_q_kernel),
}


def lower(module: Module, target: SimtTarget, num_warps: int) -> list[tuple[str, float]]:
    """Lower a copy of a module; return the seconds of each pass."""
    copy = module.clone()
    passes = lowering(target, num_warps=num_warps, num_stages=3)
    manager = PassManager(passes, verify_each=False)
    manager.run(copy, Level.TILE)
    return [(name.partition("{")[0], seconds) for name, seconds in manager.timings]


def measure(module: Module, target: SimtTarget, num_warps: int) -> tuple[float, dict[str, float]]:
    """Return the total seconds of the first lowering, and the median of later ones by pass."""
    first = sum(seconds for _, seconds in lower(module, target, num_warps))
    runs = [lower(module, target, num_warps) for _ in range(REPEATS)]
    medians: dict[str, float] = {}
    for index, (name, _) in enumerate(runs[0]):
        median = statistics.median(run[index][1] for run in runs)
        medians[name] = medians.get(name, 0.0) + median
    return first, medians


def table(header: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> str:
    """Format a table with right-aligned numbers."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |" if markdown else "  ".join(cells)

    rule = "|" + "|".join(["-" * (w + 2) for w in widths]) + "|"
    return "\n".join([line(header), *([rule] if markdown else []), *map(line, rows)])


def times(target: SimtTarget, num_warps: int, markdown: bool) -> None:
    results = {name: measure(make(), target, num_warps) for name, make in KERNELS.items()}
    passes = list(next(iter(results.values()))[1])
    header = ["ms", *results]
    rows = [
        [name, *(f"{medians[name] * 1e3:.2f}" for _, medians in results.values())]
        for name in passes
    ]
    rows.append(["all", *(f"{sum(m.values()) * 1e3:.1f}" for _, m in results.values())])
    rows.append(["first in a process", *(f"{first * 1e3:.1f}" for first, _ in results.values())])
    counts = [str(sum(1 for _ in make().walk())) for make in KERNELS.values()]
    rows.append(["operations before", *counts])
    print(table(header, rows, markdown))


def growth(target: SimtTarget, num_warps: int, markdown: bool) -> None:
    rows = []
    for steps in (8, 16, 32, 64):
        signature = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}
        module = _module(chain, signature, {"BLOCK": 1024, "STEPS": steps})
        count = sum(1 for _ in module.walk())
        total = sum(measure(module, target, num_warps)[1].values())
        rows.append(
            [f"{steps} steps", str(count), f"{total * 1e3:.1f}", f"{total / count * 1e6:.0f}"]
        )
    for size in ((32, 32, 16), (64, 64, 32), (128, 128, 64), (128, 256, 64)):
        module = _matmul(*size)
        count = sum(1 for _ in module.walk())
        total = sum(measure(module, target, num_warps)[1].values())
        rows.append(
            [
                f"matmul {'x'.join(map(str, size))}",
                str(count),
                f"{total * 1e3:.1f}",
                f"{total / count * 1e6:.0f}",
            ]
        )
    print(table(["", "operations", "ms", "us an operation"], rows, markdown))


def profile(name: str, target: SimtTarget, num_warps: int) -> None:
    make = next(make for label, make in KERNELS.items() if name in label)
    module = make()
    lower(module, target, num_warps)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(REPEATS):
        lower(module, target, num_warps)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="mma", help="a machine of tile/simt/target.py")
    parser.add_argument("--num-warps", type=int, default=8)
    parser.add_argument("--growth", action="store_true", help="time against size")
    parser.add_argument("--profile", metavar="KERNEL", help="profile the lowering of a kernel")
    parser.add_argument("--markdown", action="store_true", help="tables as Markdown")
    options = parser.parse_args()
    target = SimtTarget.parse(options.target)
    print(
        f"{target} machine, {options.num_warps} warps; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}; medians of "
        f"{REPEATS}\n"
    )
    if options.profile:
        profile(options.profile, target, options.num_warps)
    elif options.growth:
        growth(target, options.num_warps, options.markdown)
    else:
        times(target, options.num_warps, options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
