"""Kernels on an NVIDIA GPU: this project, Triton and PyTorch side by side in one process.

    python benchmarks/gpu.py                     all cases
    python benchmarks/gpu.py --case matmul       those whose name has `matmul` in it
    python benchmarks/gpu.py --markdown          the table as Markdown

Random data; every result is compared with PyTorch's in the same run; medians of `do_bench`, which
clears the L2 cache between calls. The kernels of both compilers are one text (`gpu_kernels.py`)
and, where tiles are a choice, have the same ones, of which each compiler takes its best.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.errors import TritonError

from tile.errors import TileError

HERE = Path(__file__).parent


def load(peer: str) -> ModuleType:
    """The kernels for one of the two compilers."""
    os.environ["TILE_PEER"] = peer
    spec = importlib.util.spec_from_file_location(f"kernels_of_{peer}", HERE / "gpu_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KERNELS = {peer: load(peer) for peer in ("tile", "triton")}
REFUSALS = (TileError, TritonError, torch.OutOfMemoryError)


@dataclass(frozen=True)
class Case:
    """One problem: how each peer computes it, in the tiles to be tried, and how much work it is.

    `run` takes the kernels and one of `choices`, and gives a function that computes `result`.
    """

    name: str
    unit: str  # GB/s or TFLOP/s
    work: float  # bytes or operations
    torch: Callable[[], torch.Tensor]
    run: Callable[[ModuleType, dict[str, int]], Callable[[], Any]]
    result: torch.Tensor
    choices: tuple[dict[str, int], ...]
    tolerance: float


def rows_of(columns: int) -> dict[str, int]:
    """A block that holds a row, and warps for it."""
    block = triton.next_power_of_2(columns)
    return {"BLOCK": block, "num_warps": min(16, max(4, block // 512))}


def cases() -> Iterator[Case]:
    for power in (20, 24, 27):
        n = 1 << power
        x, y, out = torch.randn(n, device="cuda"), torch.randn(n, device="cuda"), None
        out = torch.empty_like(x)

        def add(kernels: ModuleType, tiles: dict[str, int], x=x, y=y, out=out, n=n) -> Any:
            grid = (triton.cdiv(n, tiles["BLOCK"]),)
            return lambda: kernels.add_kernel[grid](x, y, out, n, **tiles)

        choices = tuple({"BLOCK": block, "num_warps": 4} for block in (1024, 2048, 4096))
        yield Case(
            f"add 2^{power}",
            "GB/s",
            12 * n,
            lambda x=x, y=y, out=out: torch.add(x, y, out=out),
            add,
            out,
            choices,
            0.0,
        )
    for columns in (256, 1024, 4096, 8192):
        x = torch.randn(4096, columns, device="cuda")
        out = torch.empty_like(x)

        def softmax(kernels: ModuleType, tiles: dict[str, int], x=x, out=out) -> Any:
            step, width = x.stride(0), x.shape[1]
            return lambda: kernels.softmax_kernel[(4096,)](out, x, step, width, **tiles)

        yield Case(
            f"softmax 4096x{columns}",
            "GB/s",
            8 * x.numel(),
            lambda x=x: torch.softmax(x, dim=-1),
            softmax,
            out,
            (rows_of(columns),),
            1e-6,
        )
    for columns in (1024, 4096, 8192):
        x = torch.randn(4096, columns, device="cuda", dtype=torch.float16)
        weight, bias = (torch.randn(columns, device="cuda", dtype=torch.float16) for _ in "wb")
        out = torch.empty_like(x)

        def norm(kernels: ModuleType, tiles: dict[str, int], x=x, w=weight, b=bias, out=out) -> Any:
            width = x.shape[1]
            return lambda: kernels.layer_norm_kernel[(4096,)](x, out, w, b, width, 1e-5, **tiles)

        yield Case(
            f"layer norm 4096x{columns}",
            "GB/s",
            4 * x.numel(),
            lambda x=x, w=weight, b=bias: torch.nn.functional.layer_norm(x, x.shape[1:], w, b),
            norm,
            out,
            (rows_of(columns),),
            2e-2,
        )
    for size in (1024, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in "ab")
        out = torch.empty_like(a)

        def matmul(kernels: ModuleType, tiles: dict[str, int], a=a, b=b, out=out, n=size) -> Any:
            grid = (triton.cdiv(n, tiles["BM"]) * triton.cdiv(n, tiles["BN"]),)
            return lambda: kernels.matmul_kernel[grid](a, b, out, n, n, n, **tiles)

        tiles = [
            {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
            for (bm, bn, warps), (bk, stages) in itertools.product(
                ((128, 128, 4), (128, 128, 8), (128, 256, 8)), ((32, 4), (64, 3))
            )
        ]
        yield Case(
            f"matmul f16 {size}",
            "TFLOP/s",
            2 * size**3,
            lambda a=a, b=b, out=out: torch.matmul(a, b, out=out),
            matmul,
            out,
            tuple(tiles),
            0.5,
        )
    q, k, v = (torch.randn(4, 32, 4096, 64, device="cuda", dtype=torch.float16) for _ in "qkv")
    out = torch.empty_like(q)

    def attention(kernels: ModuleType, tiles: dict[str, int]) -> Any:
        grid = (4096 // tiles["BM"], 4 * 32)
        scale = 64**-0.5 * 1.4426950408889634
        return lambda: kernels.attention_kernel[grid](q, k, v, out, scale, 4096, HEAD=64, **tiles)

    tiles = tuple(
        {"BM": bm, "BN": 64, "num_warps": warps, "num_stages": stages}
        for bm, warps, stages in ((64, 4, 3), (128, 4, 3), (128, 8, 3), (128, 8, 2))
    )
    yield Case(
        "attention 4x32x4096x64",
        "TFLOP/s",
        4 * 4 * 32 * 4096**2 * 64,
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        attention,
        out,
        tiles,
        2e-2,
    )


def bench(function: Callable[[], Any]) -> float:
    """The median in seconds."""
    return float(triton.testing.do_bench(function, warmup=50, rep=150, return_mode="median")) / 1e3


def best(case: Case, peer: str, wanted: torch.Tensor) -> tuple[float, str]:
    """The least time of a peer in seconds, and how it was come by or what went wrong."""
    found, note = float("inf"), ""
    for tiles in case.choices:
        try:
            function = case.run(KERNELS[peer], tiles)
            case.result.zero_()
            function()
            torch.cuda.synchronize()
            error = (case.result.float() - wanted.float()).abs().max().item()
            if not error <= case.tolerance:
                return found, f"WRONG by {error:.3g}"
            seconds = bench(function)
        except REFUSALS as error:  # this choice of tiles does not fit; another one may
            note = note or f"{type(error).__name__}: {error}".splitlines()[0][:90]
            continue
        if seconds < found:
            found, note = seconds, " ".join(str(size) for size in tiles.values())
    return found, note


def launches(peer: str) -> float:
    """Seconds of a launch of three pointers and two integers, in a tight loop."""
    x, y, out = (torch.zeros(128, device="cuda") for _ in range(3))
    kernel = KERNELS[peer].add_kernel[(1,)]
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            kernel(x, y, out, 100, BLOCK=128)
        times.append((time.perf_counter() - start) / 500)
    torch.cuda.synchronize()
    return statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="", help="only cases whose name has this in it")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    wrong = 0
    header = ["case", "unit", "tile", "triton", "torch", "to triton", "to torch", "tiles"]
    rows = []
    for case in cases():
        if options.case not in case.name:
            continue
        wanted = case.torch().clone()
        times = {"torch": bench(case.torch)}
        notes = {}
        for peer in KERNELS:
            times[peer], notes[peer] = best(case, peer, wanted)
        wrong += notes["tile"].startswith("WRONG")
        rate = {
            peer: case.work / t / (1e9 if case.unit == "GB/s" else 1e12)
            for peer, t in times.items()
        }
        rows.append(
            [
                case.name,
                case.unit,
                *(f"{rate[p]:.1f}" for p in ("tile", "triton", "torch")),
                *(f"{times[p] / times['tile']:.2f}" for p in ("triton", "torch")),
                notes["tile"],
            ]
        )
        print("  ".join(rows[-1]), flush=True)
    if options.case in "launch":
        mine, theirs = launches("tile"), launches("triton")
        rows.append(
            [
                "launch",
                "us",
                f"{mine * 1e6:.1f}",
                f"{theirs * 1e6:.1f}",
                "",
                f"{theirs / mine:.2f}",
                "",
                "",
            ]
        )
        print("  ".join(rows[-1]))
    if options.markdown:
        print("\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * 8, *rows]))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
