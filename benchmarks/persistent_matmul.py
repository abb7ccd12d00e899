"""Time persistent matmuls by descriptors, with and without producer warps, against torch.

    python benchmarks/persistent_matmul.py [--shapes 4096x4096x4096 ...] [--stages 3 4]

A program computes many tiles of the result. Bursts of 8 ms follow 30 ms of rest, so that the card
is cool, in random order; medians with quartiles. Results are compared with torch's.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import time
from collections.abc import Callable

import torch

import tile
import tile.language as tl
from tile.ops.core.batched_grid import persistent_programs

BM, BN, BK, GROUP = 128, 256, 64, 8
BURST, REST = 8.0, 0.03  # ms of work, and seconds between
WARP_SPECIALIZE = {"compiler's choice": None, "without": False, "with": True}


@tile.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """C = A B, of descriptors; programs take tiles in groups of rows, for the L2 cache."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for number in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        first = number // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        row = (first + number % (GROUP * columns) % height) * BM
        column = number % (GROUP * columns) // height * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([k, column]), total)
        c.store([row, column], total.to(c.dtype))


def calls_of(shape: tuple[int, int, int], stages: list[int]) -> dict[str, Callable[[], object]]:
    """Return the calls to time, by name, after comparing their results."""
    m, n, k = shape
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    out, c = (torch.empty(m, n, device="cuda", dtype=torch.float16) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {"torch": lambda: torch.matmul(a, b, out=out)}
    calls["torch"]()
    describe = tile.TensorDescriptor.from_tensor
    operands = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM, BN])
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    programs = persistent_programs(tile.cdiv(m, BM) * tile.cdiv(n, BN), processors)

    def call(choice: bool | None, count: int) -> object:
        return matmul[(programs,)](
            *operands, m, n, k, BM, BN, BK, GROUP, num_warps=8, num_stages=count,
            warp_specialize=choice,
        )  # fmt: skip

    for name, choice in WARP_SPECIALIZE.items():
        for count in stages:
            c.zero_()
            call(choice, count)
            torch.testing.assert_close(c, out, rtol=1e-2, atol=k**0.5 / 100)
            calls[f"{name}, {count} stages"] = functools.partial(call, choice, count)
    return calls


def milliseconds(call: Callable[[], object], count: int) -> float:
    """Return the time of a call in a burst of `count`."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    start.record()
    for _ in range(count):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop) / count)


def compare(shape: tuple[int, int, int], stages: list[int], bursts: int) -> None:
    calls = calls_of(shape, stages)
    counts = {name: max(3, int(BURST / milliseconds(call, 5))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(bursts):
        for name in random.sample(list(calls), len(calls)):
            time.sleep(REST)
            times[name].append(milliseconds(calls[name], counts[name]))
    peer = statistics.median(times["torch"])
    flops = 2e-9 * shape[0] * shape[1] * shape[2]
    print(f"{'x'.join(map(str, shape)):>16} {'us':>8} {'TFLOP/s':>8} {'of torch':>9}  quartiles")
    for name, each in times.items():
        low, middle, high = statistics.quantiles(each, n=4)
        print(
            f"{name:>28} {middle * 1e3:8.1f} {flops / middle:8.1f} {peer / middle:9.3f}"
            f"  {peer / high:.3f} to {peer / low:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    usual = ["4096x4096x4096", "8192x8192x8192", "8192x8192x512"]
    parser.add_argument("--shapes", nargs="*", default=usual, help="M x N x K")
    parser.add_argument("--stages", nargs="*", type=int, default=[3, 4])
    parser.add_argument("--bursts", type=int, default=25)
    options = parser.parse_args()
    for text in options.shapes:
        m, n, k = map(int, text.split("x"))
        compare((m, n, k), options.stages, options.bursts)


if __name__ == "__main__":
    main()
